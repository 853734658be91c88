"""The parts of ``benchmarks/suite.py``: the benchmarks, and what they stand on."""
