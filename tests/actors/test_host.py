from actors.host import host_memory


def test_host_memory_is_of_this_machine_or_its_container() -> None:
    available, total = host_memory()
    assert 0 < available <= total < 2**50
