"""The calculator in a browser, number for number against lumen.count."""

import json
import random
import re
from dataclasses import replace

import pytest

from lumen.book.calculator import calculator
from lumen.count import MODELS, DecoderConfig, StackConfig, crossover, flops_per_token
from lumen.count import training_flops as training

STACKS = {name: model for name, model in MODELS.items() if isinstance(model, StackConfig)}
FIELDS = ("d", "L", "h", "kv", "ff", "V", "P")


def content(figure):
    found = re.search(r'<script type="application/json">(.*?)</script>', figure._repr_html_(), re.S)
    return json.loads(found[1])


def expected(config, context):
    """What lumen.count says, under the names of the calculator's outputs."""
    numbers = {
        "weights": config.parameters(),
        "rule": 12 * config.n_layers * config.d_model**2,
        "bytes": 2 * config.parameters(),
        "multiply": config.matmul_parameters(),
        "forward": flops_per_token(config, context),
        "training": training(config, 1, context),
        **{part: crossover(config, part) for part in ("projections", "mlp", "block")},
    }
    if isinstance(config, DecoderConfig):
        numbers |= {
            "token": config.kv_cache_bytes(1),
            "cache": config.kv_cache_bytes(context),
            "causal": crossover(config, causal=True),
        }
    return numbers


def decoders(many):
    """Decoders of sizes that nobody published, every choice among them."""
    draw = random.Random(0)
    for _ in range(many):
        n_kv_heads, shared, d_head = draw.choice((1, 2, 3)), draw.choice((1, 2, 5)), 2
        d_head *= draw.randint(1, 40)
        learned = draw.random() < 0.5
        yield DecoderConfig(
            draw.randint(1, 300_000),
            n_kv_heads * shared * d_head,
            draw.randint(1, 99),
            n_kv_heads * shared,
            n_kv_heads=n_kv_heads,
            d_ff=draw.randint(1, 9999),
            n_positions=draw.randint(1, 5000),
            positions="learned" if learned else "rope",
            norm=draw.choice(("layer", "rms")),
            norm_first=draw.random() < 0.5,
            mlp=draw.choice(("gelu", "swiglu")),
            bias=draw.random() < 0.5,
            tied=draw.random() < 0.5,
        )


OTHERS = {f"other {at}": config for at, config in enumerate(decoders(20))}
HUGE = DecoderConfig(999_999_937, 999_999_936, 999_999_937, 2, d_ff=999_999_999)


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The calculator as a cell puts it out, alone on a page, with the network cut."""
    models = STACKS | OTHERS | {"huge": HUGE}
    file = tmp_path_factory.mktemp("calculator") / "page.html"
    shown = calculator("Price it", models, "gpt2")._repr_html_()
    file.write_text(
        f'<!doctype html><html lang="en"><title>One</title><main>{shown}</main>',
        encoding="utf-8",
    )
    context = browser.new_context(offline=True, viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.models = models
    page.goto(file.as_uri())
    yield page
    context.close()


def shown(page):
    """Every output by its name."""
    cells = page.eval_on_selector_all(
        "[data-output]", "all => all.map(one => [one.dataset.output, one.textContent])"
    )
    return {name: int(text.replace(",", "")) for name, text in cells}


def pick(page, name, context):
    page.get_by_role("radio", name=name, exact=True).check(force=True)
    page.locator("[data-input=n]").fill(str(context))


@pytest.mark.parametrize("context", [0, 1024, 131_071])
@pytest.mark.parametrize("name", [*STACKS, *OTHERS, "huge"])
def test_every_output_is_what_lumen_counts(page, name, context):
    pick(page, name, context)
    assert shown(page) == expected(page.models[name], context)
    ratio = page.models[name].parameters() / (expected(page.models[name], 0)["rule"])
    assert f"{ratio:.3f} times" in page.locator(".lc-results").inner_text()
    assert not page.complaints


def test_typing_in_a_models_numbers_gives_the_model(page):
    pick(page, "gpt2", 8192)
    spec = content(calculator("Price it", STACKS, "gpt2"))
    wanted = spec["models"]["llama-3-8b"]
    for field in FIELDS:
        page.locator(f"[data-input={field}]").fill(str(wanted[field]))
    for name, options in spec["choices"].items():
        group = page.locator(f"input[type=radio][name$='-{name}']")
        group.nth(wanted[name]).check(force=True)
        assert group.count() == len(options)
    assert shown(page) == expected(MODELS["llama-3-8b"], 8192)
    assert page.locator("input[name$='-model']:checked").count() == 0
    assert page.locator(".lw-text").inner_text().startswith("Your model: 8.03 billion weights")


def test_one_change_is_one_change(page):
    pick(page, "llama-3-8b", 100)
    page.locator("[data-input=kv]").fill("32")
    assert shown(page) == expected(replace(MODELS["llama-3-8b"], n_kv_heads=32), 100)
    page.get_by_role("radio", name="tied", exact=True).check(force=True)
    changed = replace(MODELS["llama-3-8b"], n_kv_heads=32, tied=True)
    assert shown(page) == expected(changed, 100)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("h", "7", "the heads must divide the width: 7 and 768 do not fit"),
        ("kv", "5", "the heads of keys and values must divide the heads: 5 and 12 do not fit"),
        ("d", "0", "width d wants a whole number from 1 to a billion"),
        ("L", "1.5", "blocks L wants a whole number from 1"),
        ("V", "", "vocabulary V wants a whole number from 1"),
        ("n", "-1", "context n, tokens wants a whole number from 0"),
        ("ff", "1000000001", "width inside the MLP wants a whole number from 1 to a billion"),
    ],
)
def test_what_makes_no_model_is_refused_in_words(page, field, value, words):
    pick(page, "gpt2", 1024)
    page.locator(f"[data-input={field}]").fill(value)
    assert page.locator(".lw-text").inner_text().startswith(f"Not yet: {words}")
    assert shown(page) == {}
    wrong = page.locator("[aria-invalid=true]")
    assert wrong.count() == 1 and wrong.get_attribute("data-input") == field
    pick(page, "bert-base", 1024)
    assert page.locator("[aria-invalid=true]").count() == 0


def test_more_tokens_than_rows_of_positions_are_priced_and_pointed_out(page):
    told = "But it has rows for 1,024 positions only, and cannot read so many."
    pick(page, "gpt2", 1024)
    assert told not in page.locator(".lw-text").inner_text()
    page.locator("[data-input=n]").fill("1025")
    assert page.locator(".lw-text").inner_text().endswith(told)
    assert shown(page) == expected(MODELS["gpt2"], 1025)
    pick(page, "llama-3-8b", 131_072)
    assert "But" not in page.locator(".lw-text").inner_text()


def test_absurd_sizes_are_said_in_few_digits(page):
    pick(page, "huge", 1_000_000_000)
    text = page.locator(".lc-results").inner_text() + page.locator(".lw-text").inner_text()
    assert " × 10^" in text and not re.search(r"(?<![\d,])\d{8,}", text)


def test_an_encoder_keeps_nothing_and_offers_no_choice_of_parts(page):
    pick(page, "bert-base", 512)
    assert not {"cache", "token", "causal"} & set(shown(page))
    assert page.locator("[data-input=kv]").is_disabled()
    page.locator("[data-input=h]").fill("16")
    assert shown(page)["weights"] == MODELS["bert-base"].parameters()
    pick(page, "gpt2", 512)
    assert page.locator("[data-input=kv]").is_enabled()


def test_it_goes_by_keyboard_and_is_read_out(page):
    pick(page, "gpt2", 1024)
    page.get_by_role("radio", name="gpt2", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert shown(page) == expected(MODELS["gpt2-medium"], 1024)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.input") == "d"
    page.keyboard.press("ArrowUp")
    # 16 heads divide the next multiple of 64 as well
    assert shown(page) == expected(replace(MODELS["gpt2-medium"], d_model=1088, d_ff=4096), 1024)
    assert page.locator("[aria-live=polite]").count() == 1
    assert page.get_by_role("group", name="Price it").count() == 1


def test_everybody_can_read_it(page):
    from axe_playwright_python.sync_playwright import Axe

    pick(page, "gpt2", 1024)
    report = Axe().run(page, options={"resultTypes": ["violations"]}).response
    assert [found["id"] for found in report["violations"] if found["id"] != "region"] in (
        [],
        ["page-has-heading-one"],
    )


@pytest.mark.parametrize("width", [330, 390, 1280])
def test_it_fits_a_phone(page, width):
    pick(page, "llama-3-70b", 131_072)
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1000, "height": 900})


# Without a browser


def test_it_holds_the_inputs_and_none_of_the_outputs():
    spec = content(calculator("Price it", STACKS, "gpt2"))
    assert list(spec["models"]) == list(STACKS) and len(STACKS) == 16
    assert [spec["models"]["gpt2"][f] for f in FIELDS] == [768, 12, 12, 12, 3072, 50_257, 1024]
    assert spec["models"]["llama-3-8b"]["kv"] == 8 and spec["models"]["llama-3-8b"]["P"] == 0
    gated = DecoderConfig(100, 64, 1, 2, mlp="swiglu")
    filled = content(calculator("Price it", {"gated": gated}, "gated"))["models"]["gated"]
    assert filled["ff"] == 171


def test_it_is_the_same_each_time_and_asks_nobody():
    html = calculator("Price it", STACKS, "gpt2")._repr_html_()
    assert html == calculator("Price it", STACKS, "gpt2")._repr_html_()
    assert "http:" not in html.replace("http://www.w3.org/2000/svg", "") and "https:" not in html
    assert 'role="group" aria-label="Price it"' in html
    wanted = "Interactive figure: Price it (16 models to start from)"
    assert repr(calculator("Price it", STACKS, "gpt2")) == wanted


def test_it_refuses_a_start_that_is_none_and_a_model_of_two_stacks():
    with pytest.raises(ValueError, match=r"start wants one of \['gpt2'\], got 'gpt3'"):
        calculator("Price it", {"gpt2": MODELS["gpt2"]}, "gpt3")
    with pytest.raises(ValueError, match="wants models of one stack, t5-small is none"):
        calculator("Price it", {"t5-small": MODELS["t5-small"]}, "t5-small")
