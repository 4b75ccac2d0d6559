"""The calculator: what a transformer of one stack weighs, computes and keeps, while you type.

Its inputs are too many to tabulate, so it is the one figure that computes in the page
(``calculator.js``), in integers of any length. The formulas are those of ``lumen.count``, which
tests hold it to, number for number, in a browser. The models to start from are handed in.
"""

from lumen.book.widget import Widget, _file

CHOICES = {
    "kind": ("decoder", "decoder, norms behind", "encoder"),
    "tied": ("tied", "of its own"),
    "mlp": ("two matrices", "three, gated"),
    "norm": ("LayerNorm", "RMSNorm"),
    "offsets": ("with", "without"),
}


def calculator(title, models, start, *, context=1024):
    """A calculator of weights, FLOPs, bytes and crossovers, filled in from published models.

    Args:
        title: what the figure lets the reader do; its accessible name.
        models: name → configuration of a decoder or an encoder, as in ``lumen.count``.
        start: the name of the model shown first.
        context: tokens that one reads, to begin with.

    Raises:
        ValueError: start is none of the models, or a model has not one stack.
    """
    if start not in models:
        raise ValueError(f"start wants one of {[*models]}, got {start!r}")
    content = {
        "title": title,
        "choices": CHOICES,
        "models": {name: inputs(name, config) for name, config in models.items()},
        "start": start,
        "context": context,
    }
    return Calculator(content)


def inputs(name, config):
    """What the calculator's fields say for a model: a number or the place of a choice for each.

    Args:
        name: of the model, for the refusal.
        config: its configuration.
    """
    if not hasattr(config, "matmul_parameters"):
        raise ValueError(f"the calculator wants models of one stack, {name} is none")
    decoder = hasattr(config, "tied")
    kind = ("decoder" if config.norm_first else "decoder, norms behind") if decoder else "encoder"
    gated = decoder and config.mlp == "swiglu"
    words = {
        "kind": kind,
        "tied": "of its own" if decoder and not config.tied else "tied",
        "mlp": "three, gated" if gated else "two matrices",
        "norm": "RMSNorm" if decoder and config.norm == "rms" else "LayerNorm",
        "offsets": "without" if decoder and not config.bias else "with",
    }
    learned = not decoder or config.positions == "learned"
    width = config.d_model
    return {
        "d": width,
        "L": config.n_layers,
        "h": config.n_heads,
        "kv": getattr(config, "n_kv_heads", None) or config.n_heads,
        "ff": config.d_ff or (-(-8 * width // 3) if gated else 4 * width),
        "V": config.vocab_size,
        "P": config.n_positions if learned else 0,
    } | {name: CHOICES[name].index(word) for name, word in words.items()}


class Calculator(Widget):
    """Shows itself as HTML that computes, as a line of text elsewhere."""

    def __repr__(self):
        models = len(self.content["models"])
        return f"Interactive figure: {self.content['title']} ({models} models to start from)"

    def _repr_html_(self):
        """A widget's frame and colours, with the calculator's own renderer inside."""
        frame = super()._repr_html_().replace(_file("widget.js"), _file("calculator.js"))
        return frame.replace("</style>", _file("calculator.css") + "</style>", 1)
