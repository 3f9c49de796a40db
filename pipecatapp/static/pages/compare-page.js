import "../components/state-badge.js"
import "../components/time-since.js"
import { get } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { sideBySide } from "../components/side-by-side.js"
import { h } from "../dom.js"
import { duration, pathWords, tokens } from "../format.js"
import { icon } from "../icons.js"
import { compareAddress, runAddress, setTitle } from "../router.js"

const DIFFERS = { "only before": "only in the first run", "only after": "only in the second run" }

/** Two runs beside each other, as the server compares them: where they part, their documents, outputs and steps. */
class ComparePage extends HTMLElement {
  connectedCallback() {
    this.enter(this.params)
  }

  async enter({ run, with: other }) {
    const wanted = `${run} ${other}`
    this.wanted = wanted
    this.content = h("div", { class: "compare" }, loading(5))
    const swap = h("a", { class: "button", href: compareAddress(other, run), testid: "swap" }, "Swap")
    this.replaceChildren(h("header", { class: "page-head run-head" }, h("a", { class: "link-button crumb", href: runAddress(run) }, icon("back"), "First run"), h("div", { class: "run-title" }, h("h1", { tabindex: "-1" }, "Compare two runs"), swap)), this.content)
    setTitle("Compare two runs")
    try {
      const found = await get(`/api/runs/${encodeURIComponent(run)}/compare?with=${encodeURIComponent(other)}`)
      if (this.wanted === wanted) this.content.replaceChildren(...this.#sections(found))
    } catch (error) {
      if (this.wanted === wanted) this.content.replaceChildren(problem("These runs cannot be compared", error.message, h("a", { class: "button", href: "#/runs" }, "All runs")))
    }
  }

  #sections(found) {
    const inputs = pairs(found.inputs)
    const outputs = outputsOf(found)
    return [
      totals(found),
      parting(found),
      found.document.length && section("Document", "document", fields(found.document)),
      inputs.length && section("Inputs that differ", "inputs", inputs),
      section("Outputs", "outputs", outputs.length ? outputs : h("p", { class: "quiet" }, "Neither run has an output.")),
      section(`Steps that differ: ${found.steps.length} of ${found.steps.length + found.same}`, "steps", found.steps.length ? steps(found) : h("p", { class: "quiet" }, "Every step is alike in both runs.")),
    ].filter(Boolean)
  }
}

const section = (title, name, ...content) => h("section", { class: "compare-section", testid: `compare-${name}`, "aria-label": title }, h("h2", {}, title), ...content)

function totals({ runs }) {
  const row = (name, value) => h("tr", {}, h("th", { scope: "row" }, name), runs.map((run) => h("td", {}, value(run))))
  const head = h("thead", {}, h("tr", {}, h("td", {}), ["Before", "After"].map((name) => h("th", { scope: "col" }, name))))
  const rows = [
    row("Run", (run) => h("a", { href: runAddress(run.id) }, run.title || run.workflow)),
    row("Status", (run) => h("state-badge", { state: run.status })),
    row("Workflow", (run) => run.workflow),
    row("Started", (run) => h("time-since", { at: run.started })),
    row("Took", (run) => duration(run.seconds) || "not ended"),
    row("Steps", (run) => String(run.steps)),
    row("Tokens", (run) => tokens(run.tokens) || "none"),
  ]
  return h("table", { class: "table compare-totals", testid: "compare-totals" }, head, h("tbody", {}, rows))
}

/** What a person looks for first: the step with which the runs part, and why. */
function parting({ first, drifted, runs }) {
  const content = []
  if (first) {
    const names = first.fields.map((field) => h("code", { class: "tag", testid: "first-field" }, DIFFERS[field] ?? field))
    content.push(h("p", {}, "The first step with another key is ", stepLink(runs[first.fields[0] === "only after" ? 1 : 0], first.path), ": ", names))
    content.push(...pairs(first.values))
  }
  if (drifted) content.push(h("p", { testid: "drifted" }, stepLink(runs[0], drifted), " gave another output for the same key."))
  if (!content.length) content.push(h("p", {}, "No step has another key or another output."))
  return section("Where they part", "first", ...content)
}

const stepLink = (run, path) => h("a", { href: runAddress(run.id, path), testid: "first-step" }, pathWords(path))

function pairs(values) {
  return Object.entries(values).map(([name, [before, after]]) => sideBySide(name, before ?? undefined, after ?? undefined))
}

function outputsOf({ runs }) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.outputs)))]
  return names.map((name) => sideBySide(name, runs[0].outputs[name], runs[1].outputs[name]))
}

function fields(document) {
  return document.map(({ path, field, before, after }) => sideBySide([path && pathWords(path), field].filter(Boolean).join(" · "), before ?? undefined, after ?? undefined))
}

function steps({ steps: differing, first }) {
  return h("ol", { class: "compare-steps" }, differing.map((step) => h("li", {}, oneStep(step, step.path === first?.path))))
}

/** A step as a line that unfolds to its inputs and outputs; what is folded is not built. */
function oneStep({ path, differs, before, after }, isFirst) {
  const tags = differs.map((field) => h("span", { class: "tag" }, DIFFERS[field] ?? field))
  const line = h("summary", {}, h("span", { class: "compare-path" }, pathWords(path)), h("span", { class: "row" }, isFirst && h("span", { class: "tag first" }, "first"), tags), h("span", { class: "compare-times" }, [before, after].map(times).filter(Boolean).join(" → ")))
  const fold = h("details", { class: "compare-step", testid: "compare-step", dataset: { path } }, line)
  fold.addEventListener("toggle", () => {
    if (!fold.open || fold.children.length > 1) return
    const shown = ["status", "tool", "model", "error", "input", "output"].filter((name) => differs.includes(name) || name === "output" || (!before || !after) && name === "input")
    fold.append(h("div", { class: "compare-step-body" }, shown.map((name) => sideBySide(name, before?.[name] ?? undefined, after?.[name] ?? undefined))))
  })
  return fold
}

const times = (side) => side && [duration(side.seconds), side.tokens && `${side.tokens} tokens`].filter(Boolean).join(", ")

customElements.define("compare-page", ComparePage)
