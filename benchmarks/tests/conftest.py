"""The tests of the benchmarks use the fixtures of the package's own tests."""

pytest_plugins = ["tests.conftest"]
