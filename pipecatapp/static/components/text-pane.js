import { h } from "../dom.js"
import { draftOf, keepDraft } from "../drafts.js"

const PAUSE = 200 // milliseconds without a key after which the text is sent

/**
 * <text-pane>: the YAML of a draft with line numbers and its errors at their lines. `show(draft)` fills it. Tells
 * "operations" {operations, typed: true} while a person types, and "line" {line} when the cursor moves. What is typed is
 * kept by the tab until the server has it.
 */
class TextPane extends HTMLElement {
  #base = "" // the text of the server that the field begins with
  #timer = null
  #faults = []

  connectedCallback() {
    if (this.field) return
    this.gutter = h("div", { class: "text-gutter", "aria-hidden": "true" })
    this.field = h("textarea", { class: "text-field mono", spellcheck: "false", wrap: "off", autocomplete: "off", autocapitalize: "off", "aria-label": "Text of the workflow in YAML", "aria-describedby": "text-faults", testid: "text", oninput: this.#typed, onscroll: () => (this.gutter.scrollTop = this.field.scrollTop), onkeyup: this.#moved, onclick: this.#moved, onkeydown: this.#key })
    this.faults = h("ul", { class: "text-faults", id: "text-faults", testid: "text-faults" })
    this.replaceChildren(h("div", { class: "text-frame" }, this.gutter, this.field), this.faults)
  }

  get dirty() {
    return this.field.value !== this.#base
  }

  get kept() {
    return `text-${this.name}`
  }

  /** Shows a new version; what was typed meanwhile is sent after it. */
  show(draft) {
    this.name = draft.id
    const first = !this.#base && !this.field.value
    const kept = first ? draftOf(this.kept) : ""
    if (kept) this.#restore(JSON.parse(kept), draft)
    else if (!this.dirty || first) this.#write(draft.document)
    else if (draft.document !== this.#base) this.#join(draft.document)
    this.#base = draft.document
    this.#faults = [...draft.diagnostics.map((each) => ({ ...each, kind: "error" })), ...draft.warnings.map((each) => ({ ...each, kind: "warning" }))]
    this.#paint()
    if (this.dirty) this.#later()
    else keepDraft(this.kept, "")
  }

  /** Text that was typed before a reload is there again, unless the draft was changed meanwhile: then it is offered. */
  #restore({ base, text }, draft) {
    this.#base = base
    this.#write(text)
    if (base !== draft.document) this.#join(draft.document)
  }

  /** Another pane or window changed the text while this one was typed in. */
  #join(text) {
    const joined = merged(this.#base, this.field.value, text)
    if (joined === null) {
      this.dispatchEvent(new CustomEvent("text-conflict", { detail: { text: this.field.value }, bubbles: true }))
      this.#write(text)
    } else this.#write(joined)
  }

  #write(text) {
    const { selectionStart, selectionEnd, scrollTop } = this.field
    if (this.field.value !== text) this.field.value = text
    if (document.activeElement === this.field) this.field.setSelectionRange(selectionStart, selectionEnd)
    this.field.scrollTop = scrollTop
  }

  #typed = () => {
    keepDraft(this.kept, this.dirty ? JSON.stringify({ base: this.#base, text: this.field.value }) : "")
    this.#paint()
    this.#later()
  }

  #later() {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.flush(), PAUSE)
  }

  /** Sends what was typed, at once. */
  flush() {
    clearTimeout(this.#timer)
    if (!this.dirty) return
    const operation = replacement(this.#base, this.field.value)
    this.dispatchEvent(new CustomEvent("operations", { detail: { operations: [operation], typed: true }, bubbles: true }))
  }

  #paint() {
    const count = this.field.value.split("\n").length
    const at = Map.groupBy ? Map.groupBy(this.#faults, (each) => each.line) : new Map(this.#faults.map((each) => [each.line, [each]]))
    this.gutter.replaceChildren(...Array.from({ length: count }, (_, index) => h("span", { dataset: { line: index + 1, fault: at.get(index + 1)?.[0].kind ?? "none" } }, String(index + 1))))
    this.gutter.scrollTop = this.field.scrollTop
    this.field.toggleAttribute("aria-invalid", this.#faults.some((each) => each.kind === "error"))
    this.faults.replaceChildren(...this.#faults.map((each) => h("li", {}, h("button", { type: "button", class: "link-button", testid: "text-fault", dataset: { kind: each.kind }, onclick: () => this.go(each.line, each.column) }, h("span", { class: "mono" }, `${each.line}:${each.column}`), " ", each.mend ? `${each.message}. ${each.mend}` : each.message))))
  }

  #key = (event) => {
    if (event.key !== "Escape") return
    event.stopPropagation()
    this.dispatchEvent(new CustomEvent("leave", { bubbles: true }))
  }

  #moved = () => {
    const line = this.field.value.slice(0, this.field.selectionStart).split("\n").length
    this.dispatchEvent(new CustomEvent("line", { detail: { line }, bubbles: true }))
  }

  /** Puts the cursor at a line and column, counted from 1. */
  go(line, column = 1) {
    const start = offset(this.field.value, line) + column - 1
    this.field.focus()
    this.field.setSelectionRange(start, start)
    this.#scroll(line)
  }

  /** Shows the lines of a node, without moving anybody's focus. */
  reveal(line, end) {
    if (document.activeElement === this.field || !line) return
    this.field.setSelectionRange(offset(this.field.value, line), offset(this.field.value, end + 1))
    for (const each of this.gutter.children) each.dataset.chosen = String(Number(each.dataset.line) >= line && Number(each.dataset.line) <= end)
    this.#scroll(line)
  }

  #scroll(line) {
    const height = this.field.scrollHeight / Math.max(1, this.field.value.split("\n").length)
    this.field.scrollTop = Math.max(0, (line - 4) * height)
    this.gutter.scrollTop = this.field.scrollTop
  }
}

const offset = (text, line) => text.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0)

/** The operation that makes `after` of `before`, its range in characters as the server counts them. */
export function replacement(before, after) {
  const { start, end, text } = change([...before], [...after])
  return { op: "replace", start, end, text: text.join("") }
}

function change(before, after) {
  let start = 0
  while (start < before.length && before[start] === after[start]) start += 1
  let tail = 0
  while (tail < Math.min(before.length, after.length) - start && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1
  return { start, end: before.length - tail, text: after.slice(start, after.length - tail) }
}

/** Both changes of a text in one, or null where they meet. */
export function merged(base, mine, theirs) {
  const [characters, one, other] = [[...base], change([...base], [...mine]), change([...base], [...theirs])]
  const [first, second] = one.start <= other.start ? [one, other] : [other, one]
  if (first.end > second.start || (first.start === second.start && first.text.join("") !== second.text.join(""))) return mine === theirs ? mine : null
  if (mine === theirs) return mine
  return [...characters.slice(0, first.start), ...first.text, ...characters.slice(first.end, second.start), ...second.text, ...characters.slice(second.end)].join("")
}

customElements.define("text-pane", TextPane)
