"""Goes through checks that a class has as methods (../README.md), all or the named ones, and reports them."""

import sys


def run(checks, library, names=None):
    names = names or [name for name in vars(type(checks)) if not name.startswith("_") and name != "key"]
    failed = 0
    for name in names:
        try:
            getattr(checks, name)()
            print(f"ok {name}", flush=True)
        except Exception as error:  # each check is reported, whatever stopped it
            failed += 1
            line = error.__traceback__
            while line.tb_frame.f_code.co_name != name:
                line = line.tb_next
            print(f"FAILED {name}, line {line.tb_lineno}: {type(error).__name__}: {error}")
    print(f"{library}: {len(names) - failed} passed, {failed} failed")
    sys.exit(failed != 0)


def redis_py():
    """The library's version, and that of the parser that it found."""
    import redis

    try:
        from hiredis import __version__ as parser
    except ImportError:
        parser = None
    return f"redis-py {redis.__version__}" + (f", hiredis {parser}" if parser else "")
