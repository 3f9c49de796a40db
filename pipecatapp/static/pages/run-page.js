import "../components/node-inspector.js"
import "../components/question-form.js"
import "../components/state-badge.js"
import "../components/run-todo.js"
import "../components/step-list.js"
import "../components/time-since.js"
import "../components/turn-times.js"
import "../components/run-files.js"
import "../components/run-gantt.js"
import "../components/run-player.js"
import "../graph/run-graph.js"
import { post } from "../api.js"
import { jsonView } from "../components/json-view.js"
import { loading, problem } from "../components/notice.js"
import { announce, h } from "../dom.js"
import { STATE_WORDS, tokens } from "../format.js"
import { icon } from "../icons.js"
import { chatAddress, compareAddress, rewrite, runAddress, setTitle, workflowAddress } from "../router.js"
import { deleteRuns, exportRuns, forkFrom, pinStep, runAgain, showChanges } from "../run-actions.js"
import { openRun } from "../run-state.js"

/** One run: its graph coloured by state, its steps, and all about the step that one chooses. */
class RunPage extends HTMLElement {
  #state = null
  #chosen = null
  #said = ""

  connectedCallback() {
    this.addEventListener("choose", (event) => this.#choose(event.detail.path))
    this.addEventListener("keydown", (event) => event.key === "Escape" && this.#chosen && this.#choose(null))
    this.enter(this.params)
  }

  disconnectedCallback() {
    this.#leave()
  }

  #leave() {
    this.#state?.removeEventListener("change", this.#show)
    this.#state?.close()
  }

  enter({ run, step }) {
    this.#leave()
    this.#chosen = step ?? null
    this.#said = ""
    this.#build()
    this.#state = openRun(run)
    this.#state.addEventListener("change", this.#show)
  }

  #build() {
    this.heading = h("h1", { tabindex: "-1" }, "Run")
    this.badge = h("state-badge", { state: "queued", hidden: true, testid: "run-status" })
    this.facts = h("p", { class: "run-facts" })
    this.cancel = h("button", { type: "button", class: "button", hidden: true, testid: "cancel", onclick: this.#cancel }, h("span", { class: "stop-square" }), "Stop run")
    this.actions = h("div", { class: "run-actions", role: "group", "aria-label": "This run", hidden: true }, this.#action("again", "Run again", () => runAgain(this.#state.id)), (this.changes = this.#action("changes", "Changes", () => showChanges(this.#state.id))), (this.replay = h("button", { type: "button", class: "button", "aria-pressed": "false", testid: "run-replay", onclick: this.#replay }, "Replay")), this.#action("export", "Export", () => exportRuns([this.#state.id])), (this.delete = this.#action("delete", "Delete", () => this.#delete())))
    this.stepActions = h("div", { class: "run-actions", role: "group", "aria-label": "This step", hidden: true }, this.#action("fork", "Run again from here", () => forkFrom(this.#state.id, this.#shownStep())), (this.pin = this.#action("pin", "Pin output", () => this.#pin())), (this.stepChanges = this.#action("step-changes", "Changes", () => showChanges(this.#state.id, this.#shownStep()))))
    this.done = h("p", { class: "quiet", role: "status", hidden: true, testid: "run-done" })
    this.note = h("div", { class: "note-slot" }, loading(3))
    this.gantt = h("run-gantt", { hidden: true })
    this.player = h("run-player", { hidden: true, onrewind: () => this.#show() })
    this.questions = h("run-questions", { hidden: true, onanswered: () => this.#state.refresh() })
    this.todo = h("run-todo", { hidden: true })
    this.graph = h("run-graph")
    this.steps = h("step-list", {})
    this.inspector = h("node-inspector", { hidden: true })
    this.whole = h("div", { class: "run-whole" })
    this.close = h("button", { type: "button", class: "icon-button small close", "aria-label": "Close step", title: "Close step", hidden: true, onclick: () => this.#choose(null) }, icon("cross"))
    const work = h("div", { class: "run-work" }, h("section", { class: "run-graph-pane", "aria-label": "Graph" }, this.graph), h("section", { class: "run-inspect-pane", "aria-label": "Details", tabindex: "0" }, this.close, this.whole, this.stepActions, this.inspector))
    const list = h("section", { class: "run-steps", "aria-labelledby": "steps-title" }, h("h2", { id: "steps-title" }, "Steps"), this.steps)
    this.files = h("run-files", { hidden: true })
    this.content = h("div", { class: "run-content", hidden: true }, this.gantt, this.player, work, this.files, list)
    this.replaceChildren(h("header", { class: "page-head run-head" }, h("a", { class: "link-button crumb", href: "#/runs" }, icon("back"), "Runs"), h("div", { class: "run-title" }, this.heading, this.badge, this.cancel), this.facts, this.actions), this.note, this.done, this.questions, this.todo, this.content)
  }

  /** A button whose work may be refused by the server. */
  #action(name, label, work) {
    const button = h("button", { type: "button", class: "button", testid: `run-${name}` }, label)
    button.addEventListener("click", async () => {
      if (button.ariaBusy === "true") return // not disabled meanwhile: a dialog gives the focus back to it
      button.ariaBusy = "true"
      this.note.replaceChildren()
      this.done.hidden = true
      try {
        await work()
      } catch (error) {
        this.note.replaceChildren(problem(`${label}: this did not work`, error.message))
      }
      button.ariaBusy = "false"
    })
    return button
  }

  /** The state that the page shows: the present one, or the one at the event of the player. */
  get #shown() {
    return this.player.past ?? this.#state
  }

  /** The instance that the inspector shows: the chosen one, or that of the chosen node. */
  #shownStep() {
    const shown = this.#shown
    return (shown.step(this.#chosen) ?? shown.node(this.#chosen).step)?.path ?? this.#chosen
  }

  /** Shows the events of the run with a slider, or returns to the present. */
  #replay = () => {
    if (this.player.hidden) this.player.open(this.#state)
    else this.player.close()
    this.replay.setAttribute("aria-pressed", String(!this.player.hidden))
    this.#show()
  }

  async #delete() {
    if (await deleteRuns([this.#state.id])) location.hash = "#/runs"
  }

  async #pin() {
    const said = await pinStep(this.#state.id, this.#state.view.workflow, this.#shownStep())
    this.done.hidden = !said
    this.done.textContent = said
  }

  #show = () => {
    const { view, error } = this.#state
    if (!view) return this.note.replaceChildren(problem("This run cannot be shown", error, h("a", { class: "button", href: "#/runs" }, "All runs")))
    if (this.content.hidden) this.note.replaceChildren()
    this.content.hidden = false
    const shown = this.#shown
    this.#offer(view)
    this.gantt.show(view, this.#chosen, this.player.at)
    this.#head(shown.view)
    this.questions.show(view.id, this.player.past ? [] : this.#state.questions)
    this.todo.show(view.id, view, this.#state.ended)
    this.graph.show(view.graph)
    this.graph.states((path) => shown.node(path))
    this.graph.choose(shown.step(this.#chosen)?.node ?? this.#chosen)
    this.files.show(view.id, view)
    this.steps.show(shown.view.steps, "", this.#chosen)
    this.#details(shown)
  }

  /** Shows the actions that the run, and the chosen step, can take now. */
  #offer(view) {
    this.actions.hidden = false
    this.changes.hidden = !view.steps.some((step) => step.facts?.workspace)
    this.delete.hidden = !this.#state.ended
    const step = this.#chosen && !this.player.past && this.#state.step(this.#shownStep())
    this.stepActions.hidden = !step
    this.pin.hidden = !(step?.status === "done" && step.tool)
    this.stepChanges.hidden = !step?.facts?.workspace
  }

  #head(view) {
    const name = view.request || view.workflow
    if (this.heading.textContent !== name) this.heading.textContent = name
    setTitle(`${name.slice(0, 60)} (${STATE_WORDS[view.status].toLowerCase()})`)
    this.badge.hidden = false
    this.badge.setAttribute("state", view.status)
    this.cancel.hidden = this.#state.ended
    if (this.#said && this.#said !== view.status && !this.player.past) announce(`Run ${STATE_WORDS[view.status].toLowerCase()}`)
    this.#said = view.status
    const key = JSON.stringify([view.status, view.tokens, view.seconds])
    if (this.facts.dataset.key === key) return
    this.facts.dataset.key = key
    const seconds = this.#shown.ended ? (view.seconds ?? (Date.parse(view.ended) - Date.parse(view.started)) / 1000) : null
    const parts = [h("a", { href: workflowAddress(view.workflow) }, view.workflow), h("time-since", { at: view.started }), (!this.player.past || this.#shown.ended) && h("time-taken", { started: view.started, seconds }), tokens(view.tokens) && `${tokens(view.tokens)} tokens`, view.conversation && h("a", { href: chatAddress(view.conversation) }, "Conversation"), ...fork(view)]
    this.facts.replaceChildren(...parts.filter(Boolean).map((part) => h("span", {}, part)))
  }

  #details(state) {
    const { view } = state
    const step = this.#chosen && (state.step(this.#chosen) || view.graph.nodes.some((node) => node.path === this.#chosen))
    this.inspector.hidden = !step
    this.whole.hidden = Boolean(step)
    this.close.hidden = !step
    if (step) return this.inspector.show(state, this.#chosen)
    const key = JSON.stringify([view.outputs, view.inputs, view.error, view.spoken])
    if (this.whole.dataset.key === key) return
    this.whole.dataset.key = key
    const section = (title, value) => value && Object.keys(value).length && h("section", { class: "inspector-section" }, h("h3", {}, title), jsonView(value))
    this.whole.replaceChildren(...[h("h2", { class: "off-screen" }, "The whole run"), h("p", { class: "quiet" }, "Choose a step to see what went in and what came out."), view.error && problem("The run failed", view.error), view.spoken && spoken(view.spoken), section("Outputs of the run", view.outputs), section("Inputs of the run", view.inputs)].filter(Boolean))
  }

  #choose(path) {
    const before = this.#chosen
    this.#chosen = path
    rewrite(runAddress(this.#state.id, path))
    this.#show()
    this.querySelector(".run-inspect-pane").scrollTop = 0
    if (path) announce(`Showing ${path}`)
    if (path) this.querySelector(".run-work").scrollIntoView({ block: "nearest" })
    else this.querySelector(`[data-path="${CSS.escape(before)}"]`)?.focus()
    if (path && matchMedia("(max-width: 899px)").matches) this.inspector.scrollIntoView({ block: "start", behavior: "smooth" })
  }

  #cancel = async () => {
    this.cancel.disabled = true
    try {
      await post(`/api/runs/${encodeURIComponent(this.#state.id)}/cancel`)
      await this.#state.refresh()
    } catch (error) {
      this.note.replaceChildren(problem("The run could not be stopped", error.message))
    }
    this.cancel.disabled = false
  }
}

/** Where a run comes from, and what it did otherwise. */
function fork({ id, forked }) {
  return forked ? [h("a", { href: runAddress(forked) }, "Fork of a run"), h("a", { href: compareAddress(forked, id), testid: "compare-fork" }, "Compare with it")] : []
}

/** A turn by voice: what the person waited for. */
function spoken(stages) {
  const times = h("turn-times")
  times.show(stages)
  return h("section", { class: "inspector-section", testid: "spoken" }, h("h3", {}, "From the end of speech to the first sound"), times)
}

customElements.define("run-page", RunPage)
