from tests.actors.engine.conftest import one_thread

__all__ = ["one_thread"]
