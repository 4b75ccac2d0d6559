"""Show the package's own code on the page, so that the page and the package cannot part."""

import ast
import inspect
import textwrap


def source(*objects):
    """The code of functions and classes as it stands in the package, without its docstrings.

    Args:
        objects: functions, classes or methods of the package.

    Raises:
        TypeError: an object has no Python source, or none was given.

    Example:
        >>> from lumen.book.facts import facts
        >>> print(source(facts))
        def facts(**values):
            _print_all(values, _exact)
    """
    if not objects:
        raise TypeError("source needs a function or a class of the package, got nothing")
    return Source("\n\n\n".join(_without_docstrings(_code(item)) for item in objects))


class Source:
    """Code that shows itself highlighted where Markdown is rendered, as plain text elsewhere."""

    def __init__(self, code):
        self.code = code

    def __repr__(self):
        return self.code

    def _repr_markdown_(self):
        return f"```python\n{self.code}\n```"


def _code(item):
    try:
        return textwrap.dedent(inspect.getsource(item)).rstrip()
    except (TypeError, OSError):
        raise TypeError(
            f"source needs a function or a class of the package, got {item!r}"
        ) from None


def _without_docstrings(code):
    lines = code.splitlines()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(node) is None:
            continue
        first, last = node.body[0].lineno - 1, node.body[0].end_lineno
        blank_follows = last < len(lines) and not lines[last].strip()
        keep_blank = isinstance(node, ast.ClassDef) and len(node.body) > 1
        lines[first:last] = [None] * (last - first)
        if blank_follows and not keep_blank:
            lines[last] = None
    return "\n".join(line for line in lines if line is not None)
