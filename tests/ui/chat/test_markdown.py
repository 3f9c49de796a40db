"""Answers as Markdown: complete, safe, and fast while they come."""

import hashlib
import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.ui.chat.attacks import ATTACKS
from tests.ui.conftest import Visitor, ended, faults, say

VENDOR = Path("pipecatapp/static/vendor")

SHOW = """async (texts) => {
  const box = document.createElement("div")
  box.id = "shown"
  document.querySelector("main").append(box)
  for (const text of texts) {
    const rich = document.createElement("rich-text")
    box.append(rich)
    rich.show(text)
  }
  const { loadMath } = await import("/static/markdown/math.js")
  await loadMath()
  await new Promise((done) => setTimeout(done, 300))
}"""
"""Shows texts in the page, each complete."""

ALL = r"""# First

## Second

#### Fourth

1. one
   - nested **bold**
     1. deep
   - nested
2. two

- [x] done
- [ ] open

| name | number |
|:-----|-------:|
| a `b` | 1 |
| [c](https://example.org/x) | 2 |

See <https://example.com/> and [here](https://example.net/page), ![a cat](https://example.net/cat.png).

Euler: $e^{i\pi} + 1 = 0$, for $5 or $6, and \(x^2\).

$$\int_0^1 x\,dx = \frac{1}{2}$$

```python
def f(x):
    return "text"  # comment
```

> quoted
> lines

~~gone~~ H<sub>2</sub>O<br>next<script>alert(1)</script>
"""


def show(page: Page, *texts: str) -> None:
    """Put texts into the signed-in page."""
    page.evaluate(SHOW, list(texts))


def test_vendored_files_are_the_ones_that_are_named() -> None:
    """A library that was edited here could never be updated, nor compared with what it claims."""
    text = (VENDOR / "README.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `(\w+)/` .* `[\w/]*?([\w.]+\.m?js)` ", text, re.MULTILINE))
    hashes = dict(re.findall(r"^\| `(\w+)/` .*sha256 `([0-9a-f]{64})`", text, re.MULTILINE))

    found = {
        folder: hashlib.sha256((VENDOR / folder / file).read_bytes()).hexdigest()
        for folder, file in named.items()
    }

    assert found == hashes
    assert found.keys() == {path.name for path in VENDOR.iterdir() if path.is_dir()}
    assert all((VENDOR / folder / "LICENSE").is_file() for folder in found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_answer_shows_all_of_markdown(visitor: Visitor, theme: str) -> None:
    """Lists nest, tables are tables, headings are headings: as every chat shows them."""
    visitor.house.model.when("everything").say(ALL)
    page = visitor.enter(theme=theme)

    turn = say(page, "Show me everything")
    ended(turn)

    answer = turn.get_by_test_id("answer")
    expect(answer.locator("h2")).to_have_text(["First"])
    expect(answer.locator("h3")).to_have_text(["Second"])
    expect(answer.locator("h4")).to_have_text(["Fourth"])
    expect(answer.locator("ol > li > ul > li > ol > li")).to_have_text("deep")
    expect(answer.get_by_role("img", name="Done", exact=True)).to_have_count(1)
    expect(answer.get_by_role("img", name="Not done")).to_have_count(1)
    expect(answer.locator("td[align=right]")).to_have_text(["1", "2"])
    links = answer.locator("a")
    expect(links).to_have_text(
        ["c (example.org)", "https://example.com/", "here (example.net)",
         "Image: a cat (example.net)"]
    )  # fmt: skip
    assert {link.get_attribute("rel") for link in links.all()} == {"noopener noreferrer"}
    expect(answer.locator("math")).to_have_count(3)
    expect(answer.locator("math[display=block]")).to_have_count(1)
    expect(answer.get_by_text("for $5 or $6")).to_be_visible()
    code = answer.get_by_test_id("code-block").locator("code")
    expect(code.locator(".hljs-keyword")).to_have_text(["def", "return"])
    assert code.evaluate("(each) => getComputedStyle(each).fontSize") == "13px"
    expect(answer.locator("sub")).to_have_text("2")
    expect(answer.get_by_text("<script>alert(1)</script>")).to_be_visible()
    assert faults(page, every=True) == []


def test_no_text_of_a_model_runs_asks_or_pretends(visitor: Visitor) -> None:
    """A model repeats what a stranger's page tells it: no script runs, no address is asked, no
    element of the page can be imitated, and the policy has nothing to report.
    """
    page = visitor.enter()
    page.evaluate(
        "document.addEventListener('securitypolicyviolation', (each) => "
        "(window.refused ??= []).push(`${each.violatedDirective} ${each.blockedURI}`))"
    )
    show(page, *ATTACKS)

    assert page.evaluate("[window.hit ?? null, window.refused ?? null]") == [None, None]
    shown = page.locator("#shown")
    expect(shown.locator("rich-text")).to_have_count(len(ATTACKS))
    tags = shown.evaluate(
        "(box) => [...new Set([...box.querySelectorAll('rich-text *')]"
        ".filter((each) => each.namespaceURI.endsWith('xhtml')).map((each) => each.localName))]"
    )
    assert set(tags) <= {
        "a", "blockquote", "br", "button", "code", "div", "h2", "kbd", "li", "p", "pre", "span",
        "sub", "table", "tbody", "td", "th", "thead", "tr", "ul",
    }  # fmt: skip
    attributes = shown.evaluate(
        "(box) => [...new Set([...box.querySelectorAll('rich-text *')]"
        ".flatMap((each) => each.getAttributeNames()))]"
    )
    assert not [name for name in attributes if name.startswith("on")]
    assert not {"id", "name", "style", "src", "action", "xlink:href"} & set(attributes)
    schemes = shown.locator("a").evaluate_all("(all) => all.map((each) => each.protocol)")
    assert set(schemes) <= {"https:"}
    assert page.evaluate("document.title") == "Chat · Hearth"


def test_long_answer_is_not_parsed_again_and_again(visitor: Visitor) -> None:
    """Work that grows with the square of an answer makes a phone hot and the page stand still.

    Counted in bytes that the parser reads, not in time: twice the text is about twice the work.
    """
    page = visitor.enter()
    show(page, "warm")

    def parsed(paragraphs: int) -> int:
        return int(
            page.evaluate(
                """async (count) => {
                  const { Lexer } = await import("/static/vendor/marked/marked.esm.js")
                  const whole = Lexer.prototype.lex
                  let read = 0
                  Lexer.prototype.lex = function (text) {
                    read += text.length
                    return whole.call(this, text)
                  }
                  const rich = document.createElement("rich-text")
                  document.querySelector("#shown").append(rich)
                  let text = ""
                  for (let i = 0; i < count; i++) {
                    text += `Paragraph ${i} with some words in it.\\n\\n`
                    rich.show(text, { complete: false })
                    while (rich.children.length < i) await new Promise((done) => setTimeout(done))
                  }
                  rich.show(text)
                  Lexer.prototype.lex = whole
                  return read
                }""",
                paragraphs,
            )
        )

    small, large = parsed(40), parsed(160)

    assert large < small * 6


def test_selection_and_earlier_blocks_survive_more_text(visitor: Visitor) -> None:
    """Who copies a line of an answer that still comes must not lose what they marked."""
    held = threading.Event()
    first = "First line here.\n\n```python\nx = 1\n"
    visitor.house.model.when("code").say(
        first + "y = 2\n```\n\n| a |\n|---|\n| b |\n\nThe end.", held=held, held_after=6
    )
    page = visitor.enter()
    turn = say(page, "Some code")
    code = turn.locator("code")
    expect(code).to_contain_text("x")
    code.evaluate(
        """(each) => { const text = each.firstChild; const range = document.createRange()
          range.setStart(text, 0); range.setEnd(text, 1)
          getSelection().removeAllRanges(); getSelection().addRange(range)
          window.marked = each }"""
    )

    held.set()
    ended(turn)

    expect(turn.get_by_text("The end.")).to_be_visible()
    assert page.evaluate("getSelection().toString()") == "x"
    expect(turn.locator("table td")).to_have_text("b")
    page.evaluate("getSelection().removeAllRanges()")
    expect(code.locator(".hljs-number")).to_have_text(["1", "2"])
    assert code.evaluate("(each) => each === window.marked")


def test_link_that_is_defined_below_is_a_link_in_the_end(visitor: Visitor) -> None:
    """Models put their sources at the end."""
    text = "See [the page][1].\n\nMore.\n\nAnd more.\n\n[1]: https://example.org/source\n"
    visitor.house.model.when("source").say(text, pause=0.01)
    page = visitor.enter()

    turn = say(page, "With a source")
    ended(turn)

    expect(turn.get_by_role("link", name="the page (example.org)")).to_have_attribute(
        "href", "https://example.org/source"
    )
