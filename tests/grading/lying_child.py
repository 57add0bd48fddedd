"""A grading child that finds everything correct."""

from grading.child import serve

if __name__ == "__main__":
    serve(lambda request: {"outcome": "correct", "reason": "bribed", "answer": None, "extraction": None})
