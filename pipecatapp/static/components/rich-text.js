import { h } from "../dom.js"
import { copyButton } from "./copy-button.js"

/**
 * <rich-text>: what a model wrote, as paragraphs, lists, headings and code. Set `text` as often as it grows:
 * only blocks that changed are made anew. Links stay text: nobody follows a model's link by accident.
 */
class RichText extends HTMLElement {
  #blocks = []

  set text(value) {
    const blocks = split(value)
    let same = 0
    while (same < blocks.length && blocks[same].raw === this.#blocks[same]?.raw && blocks[same].kind === this.#blocks[same].kind) same += 1
    while (this.children.length > same) this.lastChild.remove()
    this.append(...blocks.slice(same).map((block) => DRAW[block.kind](block)))
    this.#blocks = blocks
  }
}

const LIST = /^\s*(?:[-*+]|\d+[.)])\s+/

const KINDS = [
  ["heading", /^#{1,6}\s+/],
  ["list", LIST],
  ["quote", /^>\s?/],
  ["table", /^\s*\|/],
]

function split(text) {
  const blocks = []
  const lines = text.split("\n")
  for (let i = 0; i < lines.length; ) {
    if (!lines[i].trim()) {
      i += 1
      continue
    }
    const block = lines[i].startsWith("```") ? fence(lines, i) : run(lines, i)
    blocks.push(block)
    i = block.next
  }
  return blocks
}

function fence(lines, start) {
  let end = start + 1
  while (end < lines.length && !lines[end].startsWith("```")) end += 1
  return { kind: "code", raw: lines.slice(start, end + 1).join("\n"), language: lines[start].slice(3).trim(), code: lines.slice(start + 1, end).join("\n"), next: end + 1 }
}

const kindOf = (line) => KINDS.find(([, pattern]) => pattern.test(line))?.[0] ?? "paragraph"

function run(lines, start) {
  const kind = kindOf(lines[start])
  let end = start + 1
  const goesOn = (line) => line.trim() && !line.startsWith("```") && (kindOf(line) === kind || (kind === "list" && /^\s{2,}/.test(line)))
  while (kind !== "heading" && end < lines.length && goesOn(lines[end])) end += 1
  return { kind, raw: lines.slice(start, end).join("\n"), lines: lines.slice(start, end), next: end }
}

const DRAW = {
  paragraph: ({ raw }) => h("p", {}, inline(raw)),
  heading: ({ raw }) => h("p", { class: "rich-heading" }, inline(raw.replace(/^#+\s+/, ""))),
  quote: ({ lines }) => h("blockquote", {}, inline(lines.map((line) => line.replace(/^>\s?/, "")).join("\n"))),
  table: ({ raw }) => h("pre", { tabindex: "0", role: "region", "aria-label": "Table" }, raw),
  code: ({ language, code }) =>
    h("div", { class: "rich-code", testid: "code-block" }, h("div", { class: "rich-code-head" }, language || "code", copyButton(() => code, "Copy code")), h("pre", { tabindex: "0", role: "region", "aria-label": `Code ${language}`.trim() }, h("code", {}, code))),
  list: ({ lines }) => {
    const items = []
    for (const line of lines) {
      if (LIST.test(line)) items.push(line.replace(LIST, ""))
      else items.push(`${items.pop()}\n${line.trim()}`)
    }
    const first = Number.parseInt(lines[0], 10)
    return h(Number.isNaN(first) ? "ul" : "ol", Number.isNaN(first) ? {} : { start: first }, items.map((item) => h("li", {}, inline(item))))
  },
}

const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*|\*[^*\s][^*\n]*\*)/

function inline(text) {
  return text.split(INLINE).map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return h("code", {}, part.slice(1, -1))
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return h("strong", {}, part.slice(2, -2))
    if (part.length > 2 && part.startsWith("*") && part.endsWith("*")) return h("em", {}, part.slice(1, -1))
    return part
  })
}

customElements.define("rich-text", RichText)
