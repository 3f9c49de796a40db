// Formulas: `$…$` and `\(…\)` in a line, `$$…$$` and `\[…\]` as a block. KaTeX is loaded with the first one and gives MathML.
/** Characters of a formula; a longer one stays TeX, because it would hold up the page. */
const LONGEST = 10_000

// A dollar sign before a space or after one, or before a digit, is money.
const INLINE = /^\$\$([^$]+?)\$\$|^\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|^\\\((.+?)\\\)|^\\\[(.+?)\\\]/s
const BLOCK = /^ {0,3}(?:\$\$(.+?)\$\$|\\\[(.+?)\\\]) *(?:\n|$)/s

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
const renderer = ({ tex, display }) => (display === "block" ? `<p><span data-math="block">${escaped(tex)}</span></p>\n` : `<span data-math="${display}">${escaped(tex)}</span>`)

function token(type, found) {
  if (!found) return undefined
  const tex = found.slice(1).find((part) => part !== undefined)
  return { type, raw: found[0], tex: tex.trim(), display: type === "mathBlock" ? "block" : "inline" }
}

/** An extension of `marked`. */
export const mathTokens = {
  extensions: [
    { name: "mathBlock", level: "block", start: (source) => /\$\$|\\\[/.exec(source)?.index, tokenizer: (source) => token("mathBlock", BLOCK.exec(source)), renderer },
    { name: "mathInline", level: "inline", start: (source) => /\$|\\[([]/.exec(source)?.index, tokenizer: (source) => token("mathInline", INLINE.exec(source)), renderer },
  ],
}

let katex = null
let loading = null

/** Loads KaTeX once; resolves true when formulas can be drawn that could not be before. */
export async function loadMath() {
  if (katex) return false
  loading ??= import("../vendor/katex/katex.mjs")
  katex = await loading
  return true
}

/** Draws the formula whose TeX an element holds; it stays TeX while KaTeX is not loaded, and where it is not correct. */
export function drawMath(element) {
  const tex = element.textContent
  element.className = "math"
  if (!katex || tex.length > LONGEST) return
  try {
    // Without `trust` no links and no classes; `maxExpand` ends macros that expand for ever.
    const tree = katex.__renderToDomTree(tex, { output: "mathml", displayMode: element.dataset.math === "block", trust: false, maxExpand: 500, maxSize: 20 })
    withoutStyles(tree)
    element.replaceChildren(tree.toNode().firstChild)
    element.title = tex
  } catch (error) {
    if (!(error instanceof katex.ParseError)) throw error
    element.title = error.message
  }
}

/** Two commands draw with style attributes, which the content security policy refuses and reports. */
function withoutStyles(node) {
  if (node.attributes) delete node.attributes.style
  node.children?.forEach(withoutStyles)
}
