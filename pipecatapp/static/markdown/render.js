// Markdown to DOM. A model may repeat what a stranger's page told it to write, so nothing of its text is HTML: tags are shown as
// text, what remains passes DOMPurify with a short list, no attribute names an element, and no address is loaded by itself.
import { copyButton } from "../components/copy-button.js"
import { h } from "../dom.js"
import DOMPurify from "../vendor/dompurify/purify.es.mjs"
import { Marked } from "../vendor/marked/marked.esm.js"
import { drawMath, mathTokens } from "./math.js"

/** Tags without attributes that people and models write into Markdown, where it has no sign of its own. */
const SHORT_TAG = /^<\/?(?:br|kbd|mark|small|sub|sup)\s*\/?>/i

const PROTOCOLS = new Set(["http:", "https:", "mailto:"])

const marked = new Marked({ gfm: true, breaks: true }, mathTokens, {
  tokenizer: {
    html: () => undefined,
    tag: (source) => {
      const raw = SHORT_TAG.exec(source)?.[0]
      return raw && { type: "html", raw, text: raw, block: false }
    },
  },
  renderer: {
    checkbox: ({ checked }) => `<span class="task" role="img" aria-label="${checked ? "Done" : "Not done"}">${checked ? "☑" : "☐"}</span> `,
    image: ({ href, text }) => `<a href="${escaped(href)}">Image: ${escaped(text || "without a description")}</a>`,
  },
})

const PURE = {
  ALLOWED_TAGS: "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr kbd li mark ol p pre small span strong sub sup table tbody td th thead tr ul".split(" "),
  ALLOWED_ATTR: ["align", "aria-label", "class", "data-math", "href", "role", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
}

/** The blocks of a text: tokens with `raw`, which are the text again when they are joined. */
export const blocks = (text) => marked.lexer(text)

/**
 * The element of one block, null for one that shows nothing, such as an empty line, and the level of the last heading up to its end.
 * `above` is that of the block before: headings of an answer begin below that of the page, and never leave a level out.
 */
export function draw(block, above) {
  const fragment = DOMPurify.sanitize(marked.parser([block]), PURE)
  fragment.querySelectorAll("a").forEach(link)
  fragment.querySelectorAll("pre").forEach(code)
  fragment.querySelectorAll("table").forEach(table)
  fragment.querySelectorAll("[data-math]").forEach(drawMath)
  for (const heading of fragment.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    above = Math.min(Number(heading.localName[1]) + 1, above + 1, 6)
    heading.replaceWith(h(`h${above}`, {}, ...heading.childNodes))
  }
  if (!fragment.textContent.trim() && !fragment.querySelector("hr, pre, table, li")) return { element: null, above }
  const element = fragment.childElementCount === 1 && fragment.childNodes.length <= 2 ? fragment.firstElementChild : h("p", {}, fragment)
  return { element, above }
}

/** A link opens elsewhere, and says where it leads unless its words are that address. Any other kind of address stays text. */
function link(anchor) {
  const address = addressOf(anchor.getAttribute("href") ?? "")
  if (!address) return anchor.replaceWith(...anchor.childNodes)
  Object.assign(anchor, { href: address.href, target: "_blank", rel: "noopener noreferrer" })
  const place = address.host || address.pathname
  const words = anchor.textContent.trim()
  const says = !address.username && [place, address.href, address.href.replace(/\/$/, "")].includes(words)
  if (!says) anchor.append(h("span", { class: "link-host" }, ` (${place})`))
}

function addressOf(text) {
  try {
    const address = new URL(text)
    return PROTOCOLS.has(address.protocol) ? address : null
  } catch {
    return null // a relative address, or none
  }
}

function code(pre) {
  const text = pre.querySelector("code") ?? pre
  const language = /language-(\S+)/.exec(text.className)?.[1] ?? ""
  text.removeAttribute("class")
  if (language) text.dataset.language = language
  const head = h("div", { class: "rich-code-head" }, h("span", {}, language || "code"), copyButton(() => text.textContent, "Copy code"))
  const box = h("div", { class: "rich-code", testid: "code-block" }, head)
  pre.replaceWith(box)
  for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", `Code ${language}`.trim()]]) pre.setAttribute(name, value)
  box.append(pre)
}

function table(found) {
  const box = h("div", { class: "rich-table", tabindex: "0", role: "group", "aria-label": "Table" })
  found.replaceWith(box)
  box.append(found)
  for (const cell of found.querySelectorAll("th")) if (!cell.textContent.trim()) cell.replaceWith(h("td"))
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")
}
