// What a model wrote. The Markdown renderer is loaded with the first text; until then the text is shown as it is.
import { h } from "../dom.js"

/** Blocks at the end that may still read differently when more text comes: a list, and what may become an item of it. */
const OPEN = 2

/** A drawing that took t ms is followed by 8 t ms without one: a block of any length costs little of the time it takes to come. */
const REST = 8

let renderer = null
let loading = null

async function load() {
  const modules = await Promise.all(["render", "math", "highlight", "patch", "diagram"].map((name) => import(`../markdown/${name}.js`)))
  renderer = Object.assign({}, ...modules)
}

/**
 * <rich-text>: Markdown as paragraphs, headings, lists, tables, formulas, code and flowcharts. `show(text, {complete})` as often as it grows:
 * only the blocks at the end are parsed again, and what stays the same stays in the page, with any selection in it.
 */
class RichText extends HTMLElement {
  #text = ""
  #complete = true
  /** Of each block {raw, element, above, below}: its element, and the levels of the headings before and after it. */
  #blocks = []
  /** Blocks at the beginning that are final, and where the text after them begins. */
  #settled = 0
  #end = 0
  #timer = 0

  show(text, { complete = true } = {}) {
    if (text === this.#text && complete === this.#complete) return
    if (!text.startsWith(this.#text)) this.#settled = this.#end = 0
    this.#text = text
    this.#complete = complete
    if (complete) this.#draw()
    else this.#timer ||= setTimeout(() => this.#draw(), 0)
  }

  get text() {
    return this.#text
  }

  disconnectedCallback() {
    clearTimeout(this.#timer)
    this.#timer = 0
  }

  #draw = () => {
    clearTimeout(this.#timer)
    this.#timer = 0
    if (!renderer) {
      this.#plain()
      loading ??= load().catch(() => (loading = null)) // a lost network: the next piece of text tries again
      return void loading.then(() => renderer && this.#draw())
    }
    const began = performance.now()
    const shown = this.#text
    if (this.#complete) this.#settled = this.#end = 0 // a link may be defined below the block that uses it
    this.#update(renderer.blocks(this.#text.slice(this.#end)))
    const next = () => {
      this.#timer = 0
      if (this.#text !== shown) this.#draw()
    }
    if (!this.#complete) this.#timer = setTimeout(next, Math.max(16, REST * (performance.now() - began)))
  }

  #plain() {
    if (!this.#text) return this.replaceChildren()
    this.replaceChildren(h("p", { class: "rich-plain" }, this.#text))
  }

  #update(found) {
    if (this.firstElementChild?.matches(".rich-plain")) this.replaceChildren()
    const defines = Object.keys(found.links).length > 0
    const kept = this.#blocks.slice(0, this.#settled)
    for (const [i, block] of found.entries()) {
      const above = kept.at(-1)?.below ?? 1
      const old = this.#blocks[this.#settled + i]
      const same = old && old.raw === block.raw && old.above === above && !defines
      kept.push(same ? old : this.#replace(old, block, above))
    }
    for (const gone of this.#blocks.slice(kept.length)) gone.element?.remove()
    this.#blocks = kept
    this.#order()
    this.#settle()
  }

  #replace(old, block, above) {
    const { element, above: below } = renderer.draw(block, above)
    if (element?.querySelector("[data-math]")) renderer.loadMath().then((ready) => ready && this.#again())
    if (old?.element && element) return { raw: block.raw, element: renderer.patch(old.element, element), above, below }
    old?.element?.remove()
    return { raw: block.raw, element, above, below }
  }

  #order() {
    let place = this.firstChild
    for (const { element } of this.#blocks) {
      if (!element) continue
      if (element === place) place = place.nextSibling
      else this.insertBefore(element, place)
    }
  }

  /** What more text cannot change any more is coloured or drawn, and not looked at again. */
  #settle() {
    const last = this.#complete ? this.#blocks.length : this.#lastOpen()
    for (const block of this.#blocks.slice(0, last)) this.#colour(block)
    if (this.#complete) return
    for (const { raw } of this.#blocks.slice(this.#settled, last)) this.#end += raw.length
    this.#settled = Math.max(this.#settled, last)
  }

  #lastOpen() {
    let open = OPEN
    for (let i = this.#blocks.length - 1; i >= this.#settled; i -= 1) if (this.#blocks[i].element && --open === 0) return i
    return this.#settled
  }

  #colour(block) {
    if (block.coloured) return
    block.coloured = true
    for (const code of block.element?.querySelectorAll("code[data-language]") ?? []) renderer.DIAGRAMS.has(code.dataset.language) ? renderer.drawDiagram(code) : renderer.highlight(code)
  }

  #again() {
    this.#blocks = this.#blocks.map((block) => ({ ...block, raw: null }))
    this.#settled = this.#end = 0
    this.#draw()
  }
}

customElements.define("rich-text", RichText)
