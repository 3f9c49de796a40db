import { h } from "../dom.js"
import { pathWords, tokens } from "../format.js"

/**
 * <step-list>: steps as rows that can be opened. `show(steps, below)` names them as seen from the step `below`.
 * Rows are kept by path, so that focus and clicks survive live changes. Tells "choose" with detail.path.
 */
class StepList extends HTMLElement {
  #rows = new Map()

  connectedCallback() {
    this.list ??= h("ol", { class: "steps" })
    if (!this.list.isConnected) this.append(this.list)
  }

  show(steps, below = "", chosen = null) {
    const wanted = new Set(steps.map((step) => step.path))
    for (const [path, row] of this.#rows) if (!wanted.has(path)) this.#rows.delete(path) && row.item.remove()
    for (const step of steps) {
      if (!this.#rows.has(step.path)) this.#add(step, below)
      this.#update(this.#rows.get(step.path), step, chosen)
    }
  }

  #add(step, below) {
    const words = pathWords(step.path, below || (step.path.includes("[") ? step.path.split("/")[0] : ""))
    const parts = {
      badge: h("state-badge", { class: "mark-only" }),
      tool: h("span", { class: "step-tool" }),
      fine: h("span", { class: "step-fine" }),
      time: h("time-taken", { class: "step-time" }),
    }
    const choose = () => this.dispatchEvent(new CustomEvent("choose", { detail: { path: step.path }, bubbles: true }))
    const button = h("button", { type: "button", class: "step", testid: "step", onclick: choose, dataset: { path: step.path } }, parts.badge, h("span", { class: "step-words" }, parts.tool, h("span", { class: "step-path" }, step.tool || step.path.includes("/") ? words : "scope")), parts.fine, parts.time)
    const item = h("li", { dataset: { depth: Math.min(3, step.path.split("/").length - (below ? below.split("/").length + 1 : 1)) } }, button)
    this.#rows.set(step.path, { item, button, ...parts })
    this.list.append(item)
  }

  #update({ button, badge, tool, fine, time }, step, chosen) {
    put(badge, "state", step.status)
    put(button, "aria-current", step.path === chosen ? "true" : null)
    write(tool, step.tool ?? step.path.split("/").at(-1))
    write(fine, tokens(step.tokens))
    put(time, "started", step.started)
    put(time, "seconds", step.status === "running" || step.status === "waiting" ? null : (step.seconds ?? 0))
    time.hidden = step.status === "skipped" || step.status === "queued"
  }
}

function put(element, name, value) {
  if (value === null || value === undefined) element.removeAttribute(name)
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value)
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text
}

customElements.define("step-list", StepList)
