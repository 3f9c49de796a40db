import "../graph/evolution-graph.js"
import { get, post, remove } from "../api.js"
import { campaignForm, costText } from "../components/campaign-form.js"
import { confirmed, diffBox, openDialog, textBox } from "../components/dialog.js"
import { emptyState, loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { announce, h } from "../dom.js"
import { every } from "../events.js"
import { rates } from "../graph/evolution-graph.js"
import { evolutionAddress, rewrite, runAddress } from "../router.js"

const DECISIONS = { promote: "The gate passed: the prompt is proposed.", give_up: "The gate failed: the new prompt is not better.", too_expensive: "The gate failed: the new prompt uses too many tokens.", exhausted: "The gate used all of its cases without a decision.", no_budget: "The gate stopped: the token budget is used up.", open: "The gate has not decided." }

const STATES = { running: "The campaign is running.", elsewhere: "A command runs a campaign; it may be this one.", paused: "The campaign is paused.", stopped: "The campaign was stopped.", ended: "The campaign has ended." }
const LOOK_SECONDS = 2

/**
 * Prompt campaigns: their candidates as a graph, and what a person decides about the proposal. With the attribute `readonly`
 * nothing can be decided: the archive is shown without an instance.
 */
class EvolutionPage extends HTMLElement {
  #found = null // the campaign that is shown, as the API gives it
  #live = []
  #regrets = {} // how live runs compare with the prompt before, by promoted prompt
  #states = {} // what each campaign does now, by its name
  #seen = "" // what the last look has read
  #chosen = null // the id of the candidate that is shown
  #stopLooking = () => {}

  connectedCallback() {
    this.choice = h("select", { "aria-label": "Campaign", testid: "campaign", onchange: () => this.#open(this.choice.value) })
    this.state = h("div", { class: "evolution-state", testid: "evolution-state" }, loading(2))
    this.graph = h("evolution-graph", { onchoose: (event) => this.#choose(event.detail.id) })
    this.detail = h("aside", { class: "evolution-detail", "aria-label": "Candidate", testid: "candidate-detail" })
    this.begin = h("button", { type: "button", class: "button", testid: "campaign-new", onclick: () => this.#begin() }, "New campaign")
    this.replaceChildren(this.#readonly ? h("header", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Evolution"), this.choice) : systemHead("evolution", this.choice, this.begin), this.state, h("div", { class: "evolution-body" }, this.graph, this.detail))
    this.#load(this.params?.campaign)
    if (!this.#readonly) this.#stopLooking = every(LOOK_SECONDS, () => this.#look())
  }

  disconnectedCallback() {
    this.#stopLooking()
  }

  get #readonly() {
    return this.hasAttribute("readonly")
  }

  /** Called with new parameters while this page stays. */
  enter({ campaign }) {
    if (campaign && campaign !== this.choice.value) this.#open(campaign)
  }

  async #load(wanted, options) {
    try {
      const { campaigns, promotions, regrets, states } = await get("/api/evolution")
      this.#live = promotions
      this.#regrets = regrets
      this.#states = states
      if (!campaigns.length) return this.#nothing()
      this.choice.hidden = this.graph.hidden = false
      this.choice.replaceChildren(...campaigns.map((each) => h("option", { value: each.campaign }, `${each.campaign} (${each.genome.prompt})`)))
      await this.#open(wanted ?? campaigns[0].campaign, options)
    } catch (error) {
      this.state.replaceChildren(problem("The campaigns cannot be read", error.message))
    }
  }

  /** Shows what a campaign that runs has found since the last look; the chosen candidate stays. */
  async #look() {
    const name = this.#found?.campaign.campaign
    if (!["running", "elsewhere"].includes(this.#states[name]?.state)) return
    const seen = await this.#read(name)
    if (!seen || seen === this.#seen || name !== this.#found.campaign.campaign) return
    this.#seen = seen
    const chosen = this.#chosen
    await this.#load(name, { keepView: true })
    if (chosen) this.#choose(chosen)
  }

  /** All that is shown of a campaign, as a text to compare; null after an error, which is shown. */
  async #read(name) {
    try {
      return JSON.stringify(await Promise.all([get("/api/evolution"), get(`/api/evolution/${encodeURIComponent(name)}`)]))
    } catch (error) {
      this.state.replaceChildren(problem("The campaign cannot be read", error.message))
      return null
    }
  }

  #nothing() {
    this.choice.hidden = true
    this.graph.hidden = true
    this.state.replaceChildren(emptyState("graph", "No campaigns yet", "Write cases for a prompt, then start a campaign here or with: hearth evolve run PROMPT"))
  }

  async #open(campaign, { keepView = false } = {}) {
    try {
      this.#found = await get(`/api/evolution/${encodeURIComponent(campaign)}`)
    } catch (error) {
      return this.state.replaceChildren(problem("The campaign cannot be read", error.message))
    }
    this.choice.value = campaign
    if (!this.#readonly) rewrite(evolutionAddress(campaign))
    const { candidates, proposal } = this.#found
    this.graph.show(candidates, ancestors(candidates, this.#promotion()?.candidate ?? proposal?.candidate), { keepView })
    this.#showState()
    this.#choose(proposal?.candidate ?? candidates[0]?.id)
  }

  #promotion() {
    return this.#live.find((each) => each.campaign === this.#found.campaign.campaign)
  }

  #showState() {
    const { gate, proposal } = this.#found
    const live = this.#promotion()
    const parts = [h("p", {}, gate ? DECISIONS[gate.decision] : "The gate has not run. A score on search cases is no result.")]
    if (proposal) parts.push(h("p", { testid: "evidence" }, evidenceText(proposal)))
    if (live) parts.push(h("p", {}, `Live, confirmed by ${live.by}.`))
    const regret = live && this.#regrets[live.prompt]
    if (regret) parts.push(h("p", { testid: "regret" }, regretText(regret)))
    if (live && !this.#readonly) parts.push(h("button", { type: "button", class: "button", testid: "rollback", onclick: () => this.#rollBack(live) }, "Roll back"))
    else if (proposal && !this.#readonly) parts.push(h("button", { type: "button", class: "button primary", testid: "promote", onclick: () => this.#promote(proposal) }, "Promote"))
    this.state.replaceChildren(...parts, ...this.#controls())
  }

  /** What the campaign does now, and the buttons that change it. */
  #controls() {
    const name = this.#found.campaign.campaign
    const { state, error } = this.#states[name] ?? {}
    if (!state) return []
    const button = (action, label, work) => h("button", { type: "button", class: "button", testid: `campaign-${action}`, onclick: work }, label)
    const parts = [h("p", { testid: "campaign-state" }, STATES[state])]
    if (error) parts.push(problem("The campaign failed", error))
    if (state === "running") parts.push(button("pause", "Pause", () => this.#change(name, "pause", "The campaign is paused.")))
    if (state === "paused") parts.push(button("resume", "Resume", () => this.#change(name, "resume", "The campaign is running.")))
    if (state === "running" || state === "paused") parts.push(button("stop", "Stop", () => this.#end(name)))
    return parts
  }

  #change(name, action, words) {
    return this.#decide(() => post(`/api/evolution/${encodeURIComponent(name)}/${action}`, {}), words)
  }

  async #end(name) {
    if (await confirmed(`Stop the campaign ${name}?`, "It cannot go on afterwards. The candidates that it found stay.", "Stop")) await this.#change(name, "stop", "The campaign is stopped.")
  }

  /** Asks for a new campaign, shows its cost, and starts it when the person confirms. */
  async #begin() {
    try {
      const form = campaignForm((await get("/api/prompts")).prompts)
      while (await openDialog({ title: "New campaign", content: form.element, actions: [{ name: "cost", label: "Show the cost", kind: "primary" }], close: "Cancel" })) {
        const order = form.values()
        const cost = await this.#cost(order, form)
        if (cost && !(await this.#agreed(cost))) return
        if (cost) return await this.#startNow(order)
      }
    } catch (error) {
      this.state.append(problem("No campaign was started", error.message))
    }
  }

  async #cost(order, form) {
    this.begin.disabled = true
    announce("The cost is calculated.")
    try {
      return await post("/api/evolution/estimate", order)
    } catch (error) {
      form.refuse(error.message)
      return null
    } finally {
      this.begin.disabled = false
    }
  }

  async #agreed(cost) {
    const content = h("p", { testid: "campaign-cost" }, costText(cost))
    return (await openDialog({ title: `Start the campaign ${cost.campaign}?`, content, actions: [{ name: "confirm", label: "Start", kind: "primary" }], close: "Cancel" })) === "confirm"
  }

  async #startNow(order) {
    const { campaign } = await post("/api/evolution", order)
    announce(`The campaign ${campaign} is running.`)
    await this.#load(campaign)
  }

  #choose(id) {
    const candidate = this.#found.candidates.find((each) => each.id === id)
    if (!candidate) return this.detail.replaceChildren()
    this.graph.choose(id)
    this.#chosen = id
    const { passes, runs } = rates(candidate)
    const parents = candidate.parents.map((parent) => h("button", { type: "button", class: "button small", testid: "parent", onclick: () => this.#choose(parent) }, parent))
    this.detail.replaceChildren(
      h("h2", {}, candidate.id),
      h("p", { testid: "candidate-about" }, `${candidate.origin}, ${candidate.status}, generation ${candidate.generation}; search cases passed: ${passes} of ${runs}; ${candidate.tokens} tokens`),
      h("p", {}, "Parent: ", parents.length ? parents : "none"),
      candidate.reason && h("p", { class: "fine" }, candidate.reason),
      h("h3", {}, "Rationale"),
      h("p", { testid: "rationale" }, candidate.rationale || "The live prompt at the start."),
      h("h3", {}, "Change"),
      candidate.diff ? diffBox(candidate.diff, "Change to the parent") : h("p", {}, "None."),
      h("h3", {}, "Text"),
      textBox(candidate.genome.text, "Text of the prompt"),
      h("h3", {}, "Cases"),
      caseList({ ...candidate.learn, ...candidate.select }),
    )
  }

  async #promote(proposal) {
    const name = h("input", { type: "text", "aria-label": "Your name", required: true, maxlength: 200, testid: "by" })
    const content = h("div", {}, h("p", {}, evidenceText(proposal)), h("label", {}, "Your name, for the record ", name))
    const action = await openDialog({ title: `Make this the prompt “${proposal.prompt}”?`, content, actions: [{ name: "confirm", label: "Promote", kind: "primary" }], close: "Cancel" })
    if (action !== "confirm") return
    await this.#decide(() => post(`/api/evolution/${encodeURIComponent(proposal.campaign)}/promote`, { by: name.value }), "The prompt is live.")
  }

  async #rollBack(live) {
    const content = h("p", {}, "Runs that start from now on use the prompt that was live before.")
    const action = await openDialog({ title: `Roll back the prompt “${live.prompt}”?`, content, actions: [{ name: "confirm", label: "Roll back", kind: "danger" }], close: "Cancel" })
    if (action === "confirm") await this.#decide(() => remove(`/api/evolution/promotions/${encodeURIComponent(live.prompt)}`), "The prompt is rolled back.")
  }

  async #decide(request, words) {
    try {
      await request()
      announce(words)
      await this.#load(this.#found.campaign.campaign)
    } catch (error) {
      this.state.append(problem("Nothing was changed", error.message))
    }
  }
}

function evidenceText({ candidate, evidence }) {
  return `${candidate}: on ${evidence.pairs} unseen cases the new prompt passed ${evidence.new_passed} and the live one ${evidence.old_passed} (${evidence.wins} only the new one, ${evidence.losses} only the live one). Evidence e = ${evidence.e}; 20 is needed. Tokens: ${evidence.cost} times.`
}

function regretText({ decision, evidence }) {
  const words = `Live runs compared with the prompt before: ${evidence.pairs} (${evidence.wins} passed only with the promoted one, ${evidence.losses} only with the old one); e = ${evidence.e}.`
  return decision === "roll_back" ? `${words} Rollback is proposed: decide with the button.` : words
}

/** The ids of a candidate and of all candidates that it comes from. */
function ancestors(candidates, id) {
  const byId = new Map(candidates.map((each) => [each.id, each]))
  const found = new Set()
  const open = id ? [id] : []
  while (open.length) {
    const next = byId.get(open.pop())
    if (!next || found.has(next.id)) continue
    found.add(next.id)
    open.push(...next.parents)
  }
  return found
}

function caseList(scores) {
  const rows = Object.entries(scores).map(([id, score]) => h("li", { testid: "case", dataset: { passed: String(score.passes === score.runs) } }, `${id}: ${score.passes === score.runs ? "passed" : "failed"} `, score.run_ids.map((run) => h("a", { href: runAddress(run) }, "run")), score.message && h("p", { class: "fine" }, score.message)))
  return rows.length ? h("ul", { class: "evolution-cases" }, rows) : h("p", {}, "It was not run.")
}

customElements.define("evolution-page", EvolutionPage)
