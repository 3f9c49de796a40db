import { h } from "../dom.js"
import { EFFECTS, pathWords, tokens } from "../format.js"
import { icon } from "../icons.js"
import { jsonView } from "./json-view.js"
import { problem } from "./notice.js"

/**
 * <node-inspector>: what is to know of one step or node. `show(state, path)` with a RunState.
 * Values are drawn anew only when they differ, so that what one unfolded stays so. Tells "choose" with detail.path.
 */
class NodeInspector extends HTMLElement {
  #sections = new Map()

  connectedCallback() {
    this.dataset.testid = "inspector"
  }

  show(state, path) {
    if (this.path !== path) this.#begin(path)
    const node = state.view.graph.nodes.find((each) => each.path === path)
    const step = state.step(path) ?? (node && state.node(path).step)
    const asked = asking(step, state.inside(path))
    const status = step?.status ?? (node ? state.node(path).state : "idle")
    this.#section("head", [path, status], () => this.#head(path, status, node))
    this.#section("facts", [step?.status, step?.seconds, step?.tokens, asked?.model, step?.started, step?.attempt], () => step && facts(step, asked?.model))
    this.#section("error", [status, step?.error], () => step?.error && why(status, step.error))
    this.#section("idle", !step && !state.inside(path).length, () => !step && h("p", { class: "quiet" }, state.ended ? "The run ended before it came to this node." : "The run has not come to this node yet."))
    this.#value("output", "Output", step?.output ?? state.text(path))
    this.#value("input", "Input", step?.input)
    this.#value("prompt", "Prompt", asked?.prompt)
    this.#value("facts-more", "Facts", step?.facts && Object.keys(step.facts).length ? step.facts : null)
    this.#inner(state, path)
  }

  #begin(path) {
    this.path = path
    this.#sections.clear()
    this.replaceChildren()
    this.scrollTop = 0
  }

  /** A part of the page that is made again when `basis` differs from last time. */
  #section(name, basis, make) {
    const key = JSON.stringify(basis) ?? ""
    const known = this.#sections.get(name)
    if (known?.key === key) return known.element
    const element = make() || h("span", { hidden: true })
    if (known) known.element.replaceWith(element)
    else this.append(element)
    this.#sections.set(name, { key, element })
    return element
  }

  #head(path, status, node) {
    const up = path.includes("/") && path.slice(0, path.lastIndexOf("/"))
    const parent = up && h("button", { type: "button", class: "link-button crumb", onclick: () => this.#choose(path.split("/")[0]) }, icon("back"), path.split("/")[0])
    const title = h("h2", { class: "inspector-title", tabindex: "-1" }, pathWords(up ? path.slice(path.split("/")[0].length + 1) : path))
    return h("header", { class: "inspector-head" }, parent, h("div", { class: "inspector-line" }, title, h("state-badge", { state: status })), node?.about && h("p", { class: "quiet" }, node.about))
  }

  #value(name, title, value) {
    const some = value !== null && value !== undefined
    this.#section(name, some ? value : null, () => some && h("section", { class: "inspector-section", testid: `inspector-${name}` }, h("h3", {}, title), jsonView(value)))
  }

  #inner(state, path) {
    const steps = state.inside(path)
    const section = this.#section("inner", steps.length > 0, () => steps.length > 0 && h("section", { class: "inspector-section" }, h("h3", {}, "Inside this step"), h("step-list", { testid: "inner-steps" })))
    section.querySelector("step-list")?.show(steps, path)
  }

  #choose(path) {
    this.dispatchEvent(new CustomEvent("choose", { detail: { path }, bubbles: true }))
  }
}

function why(status, reason) {
  return status === "skipped" ? h("p", { class: "quiet" }, `Skipped: ${reason}.`) : problem("This step failed", reason)
}

/** The call of a model that tells most about a step: its own, else the last one inside it. */
function asking(step, inside) {
  return step?.prompt || step?.model ? step : inside.findLast((each) => each.prompt)
}

function facts(step, model) {
  const rows = [
    ["Took", step.started && h("time-taken", { started: step.started, seconds: step.status === "running" ? null : (step.seconds ?? 0) })],
    ["Started", step.started && h("time-since", { at: step.started })],
    ["Model", model],
    ["Tokens", tokens(step.tokens)],
    ["Tool", step.tool],
    ["Effect", EFFECTS[step.effect] ?? step.effect],
    ["Attempt", step.attempt],
  ]
  return h("dl", { class: "facts", testid: "inspector-facts" }, rows.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))))
}

customElements.define("node-inspector", NodeInspector)
