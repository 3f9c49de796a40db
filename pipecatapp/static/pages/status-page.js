import "../components/state-badge.js"
import "../components/time-since.js"
import { get } from "../api.js"
import { loading, problem } from "../components/notice.js"
import { systemHead } from "../components/page-tabs.js"
import { h } from "../dom.js"
import { every, ticking } from "../events.js"
import { memory, moment } from "../format.js"
import { stateIcon } from "../icons.js"
import { runAddress } from "../router.js"

/** Milliseconds after which an answer no longer counts as the current status. */
const STALE = 15_000
/** Milliseconds that the server gets for an answer. */
const SILENCE = 10_000

/** How the programs of workflows are limited. */
const PROGRAMS = {
  cgroup: "Programs of workflows run in a sandbox. A cgroup limits their memory.",
  watched: "Programs of workflows run in a sandbox. Their memory is watched from outside, since no cgroup can be made here.",
  refused: "Programs of workflows cannot be run here. ",
}

/** How the machines, services and experts are, in words; refreshes itself. */
class StatusPage extends HTMLElement {
  #stops = []
  #status = null
  #at = 0
  #lost = false
  #key = ""
  #told = ""
  #summary = ""

  connectedCallback() {
    this.note = h("div", { class: "note-slot" }, loading(4))
    this.summary = h("div", { class: "note-slot" })
    this.content = h("div", { class: "status-content" })
    this.fresh = h("p", { class: "fine", testid: "freshness" })
    this.replaceChildren(systemHead("status", this.fresh), this.note, this.summary, this.content)
    this.#stops = [every(3, this.#load), ticking(() => this.#summarize())]
  }

  disconnectedCallback() {
    for (const stop of this.#stops) stop()
  }

  #load = async () => {
    try {
      const status = await get("/api/status", { signal: AbortSignal.timeout(SILENCE) })
      this.#note(status.unknown.map((words) => ["Not everything can be queried", words]))
      this.fresh.replaceChildren(`Hearth ${status.version} · checked `, h("time-since", { at: new Date().toISOString() }))
      this.#status = status
      this.#at = Date.now()
      this.#lost = false
      const key = JSON.stringify(status)
      if (key !== this.#key) this.#show(status)
      this.#key = key
    } catch (error) {
      this.#lost = true
      this.#note([["The status cannot be read", error.message]])
    }
    this.#summarize()
  }

  /** Said again only when it changes: a screen reader reads each notice out. */
  #note(notices) {
    const told = JSON.stringify(notices)
    if (told !== this.#told) this.note.replaceChildren(...notices.map(([title, words]) => problem(title, words)))
    this.#told = told
  }

  /** The banner; a status that is old, or that could not be read again, has no colour of health. */
  #summarize() {
    if (!this.#status) return
    const known = !this.#lost && Date.now() - this.#at < STALE
    const [state, words] = verdict(this.#status)
    const shown = known ? [state, words, busy(this.#status)] : ["idle", "The current status is unknown", `When it was last checked: ${words.charAt(0).toLowerCase()}${words.slice(1)}`]
    const key = JSON.stringify([shown, this.#status.links])
    if (key === this.#summary) return
    this.#summary = key
    const [now, title, detail] = shown
    this.summary.replaceChildren(h("div", { class: "banner", dataset: { state: now }, testid: "summary" }, stateIcon(now), h("div", {}, h("strong", {}, title), h("p", {}, detail)), pages(this.#status.links)))
  }

  #show({ machines, services, experts, schedules, programs }) {
    const several = machines.length > 1
    this.content.replaceChildren(
      table("Machines", "machines", ["Name", "State", "Capacity", "Services"], illFirst(machines).map(machine)),
      experts.length ? table("Experts", "experts", ["Name", "Health", "Model", "Detail"], illFirst(experts).map(expert)) : h("section", {}, h("h2", {}, "Experts"), h("p", { class: "quiet" }, "No expert is known. The gateway tells which ones there are; is it running?")),
      table("Services", "services", ["Name", "Health", "Since", "Detail"], illFirst(services).map((each) => service(each, several))),
      ...(schedules.length ? [table("Schedules", "schedules", ["Name", "Next", "Last run", "Times"], schedules.map(schedule))] : []),
      h("section", {}, h("h2", {}, "Programs"), h("p", { class: "quiet", testid: "programs" }, PROGRAMS[programs.mode], programs.detail)),
    )
  }
}

/** The state of the whole and its sentence: "1 service is down: smollm2". */
function verdict({ down, unknown, services }) {
  const parts = ["service", "machine"].map((kind) => down.filter((each) => each.kind === kind)).filter((list) => list.length)
  if (parts.length) return ["failed", parts.map(counted).join(" · ")]
  if (unknown.length || !services.length) return ["waiting", "Not everything can be queried"]
  return ["done", "Everything is working"]
}

function counted(list) {
  const [{ kind }] = list
  const state = kind === "machine" ? "not ready" : "down"
  return `${list.length} ${kind}${list.length === 1 ? " is" : "s are"} ${state}: ${list.map(({ name }) => name).join(", ")}`
}

const busy = ({ agent }) => (agent.runs_running === 1 ? "1 run in progress" : `${agent.runs_running || "No"} runs in progress`)
const illFirst = (list) => [...list].sort((one, other) => one.healthy - other.healthy)
const health = (healthy, words = healthy ? "Healthy" : "Not healthy") => h("state-badge", { state: healthy ? "done" : "failed", words })
const cell = (name, ...content) => h("td", { dataset: { name } }, ...content)
const fine = (...words) => h("span", { class: "fine" }, words.filter(Boolean).join(" · "))
const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1)

function pages(links) {
  const entries = Object.entries(links)
  return entries.length > 0 && h("nav", { class: "banner-links", "aria-label": "Other pages", testid: "links" }, entries.map(([name, href]) => h("a", { href, target: "_blank", rel: "noreferrer" }, name)))
}

function machine({ name, address, healthy, state, detail, cores, memory_mb, services }) {
  const room = [cores && `${cores} ${cores === 1 ? "core" : "cores"}`, memory_mb && memory(memory_mb)].filter(Boolean).join(", ")
  return [h("th", { scope: "row" }, name, address && fine(address)), cell("health", health(healthy, sentence(state))), cell("room", room || fine("unknown")), cell("services", services.join(", ") || fine("none"), detail && fine(detail))]
}

function service({ name, url, machine, healthy, since, detail }, several) {
  return [h("th", { scope: "row" }, name, fine(several && machine, url)), cell("health", health(healthy)), cell("since", since ? h("time-since", { at: since, full: true }) : fine("unknown")), cell("detail", detail || (healthy ? "Ready" : "No answer"))]
}

function expert({ name, model, model_reason, healthy, reason, instances }) {
  const where = [...new Set(instances.filter((each) => each.healthy).map((each) => each.machine))].filter(Boolean)
  return [h("th", { scope: "row" }, name, where.length > 0 && fine(`on ${where.join(", ")}`)), cell("health", health(healthy)), cell("model", model || fine("none loaded")), cell("detail", reason || model_reason || (healthy ? "Ready" : "No answer"))]
}

function schedule({ id, workflow, cron, every, zone, paused, due, started, run, status, error }) {
  const next = paused ? "Paused" : due ? moment(due) : fine("never again")
  const last = [status && h("state-badge", { state: status }), h("a", { href: runAddress(run) }, h("time-since", { at: started, full: true }))].filter(Boolean)
  const times = every === null ? [cron, zone].filter(Boolean).join(" · ") : `every ${every} seconds`
  return [h("th", { scope: "row" }, id, workflow !== id && fine(workflow)), cell("next", next), cell("last", ...(error ? [error] : run ? last : [fine("never")])), cell("times", times)]
}

function table(title, testid, columns, rows) {
  const head = h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name))))
  return h("section", {}, h("h2", { id: `${testid}-title` }, title), h("table", { class: "table status-table", testid, "aria-labelledby": `${testid}-title` }, head, h("tbody", {}, rows.map((cells) => h("tr", {}, cells)))))
}

customElements.define("status-page", StatusPage)
