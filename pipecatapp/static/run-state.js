// One run as the page knows it: the server's view, kept current by the run's events.
import { get } from "./api.js"
import { followRun } from "./events.js"
import { ENDED } from "./format.js"

/** Events after which a step has something that they do not hold: what came out, or what is asked. */
const TELLING = new Set(["node.done", "node.failed", "node.waiting"])

/** The tool whose steps add nodes to the graph of a run when they begin. */
const PLAN_RUN = "plan.run"

const plain = (path) => path.replaceAll(/\[\d+\]|#\d+/g, "")

const open = new Map()

/** The state of a run, which everything that shows this run shares: one connection. Each caller ends with `close()`. */
export function openRun(id) {
  if (!open.has(id)) open.set(id, new RunState(id))
  return open.get(id).join()
}

/** Tells "change" (something looks different) and "missing" (no such run, with `error`). */
export class RunState extends EventTarget {
  view = null
  error = null
  #users = 0
  #stop = () => {}
  #since = []
  #pending = 0
  #closed = false
  #missing = false
  #texts = new Map()
  #byPath = new Map()
  #byNode = new Map()
  #scopes = new Set()

  constructor(id) {
    super()
    this.id = id
  }

  join() {
    this.#users += 1
    if (this.#users === 1) this.#open()
    else this.#tell()
    return this
  }

  async #open() {
    await this.refresh()
    if (this.view && !this.ended) this.#follow()
    else if (!this.view && !this.#missing && !this.#closed) setTimeout(() => this.#open(), 2000)
  }

  #follow() {
    if (!this.#closed) this.#stop = followRun(this.id, { onEvent: this.#apply, onWords: this.#hear, onEnd: this.#ended })
  }

  /** The events are over: because the run is, or because the service went away for a while. */
  #ended = async () => {
    await this.refresh()
    if (!this.ended) setTimeout(() => this.#follow(), 2000)
  }

  close() {
    this.#users -= 1
    if (this.#users) return
    open.delete(this.id)
    this.#closed = true
    this.#stop()
    clearTimeout(this.#pending)
  }

  get ended() {
    return ENDED.has(this.view?.status)
  }

  /** What the run waits for a person to answer: {path, question} each. */
  get questions() {
    const asking = this.view.steps.filter((step) => step.status === "waiting" && step.facts?.question)
    return asking.map(({ path, facts }) => ({ path, question: facts.question }))
  }

  /** Reads the whole view again; events that came meanwhile are newer and win. */
  async refresh() {
    this.#since = []
    try {
      const view = await get(`/api/runs/${encodeURIComponent(this.id)}`)
      this.take(view)
      this.error = null
      for (const event of this.#since) this.#merge(event)
    } catch (error) {
      this.error = error.message
      this.#missing = error.status === 404
    }
    this.#tell()
  }

  /** Becomes what a view of the server says. */
  take(view) {
    const steps = view.steps
    this.view = { ...view, steps: [] }
    this.#scopes = new Set(view.graph.nodes.map((node) => node.parent))
    this.#byPath.clear()
    this.#byNode.clear()
    for (const step of steps) this.#add(step)
  }

  #add(step) {
    this.view.steps.push(step)
    this.#byPath.set(step.path, step)
    if (!this.#byNode.has(step.node)) this.#byNode.set(step.node, [])
    this.#byNode.get(step.node).push(step)
  }

  #apply = (event) => {
    this.#since.push(event)
    if (!this.view) return
    this.#merge(event)
    if (TELLING.has(event.type) || event.data?.tool === PLAN_RUN) this.#refreshSoon()
    this.#tell()
  }

  #hear = ({ path, text, offset = 0 }) => {
    this.#texts.set(path, (this.#texts.get(path) ?? "").slice(0, offset) + text)
    this.#tell()
  }

  /** What all steps have said so far, in the order in which they began to speak. */
  get words() {
    return [...this.#texts.values()].join("")
  }

  /** What a step has said so far, while it is not done. */
  text(path) {
    return this.#texts.get(path)
  }

  /** Inputs, outputs and questions are not in the events; fetch them in one go for many steps. */
  #refreshSoon() {
    this.#pending ||= setTimeout(async () => {
      await this.refresh()
      this.#pending = 0
    }, 250 + 2 * this.view.steps.length)
  }

  #merge(event) {
    const [kind, what] = event.type.split(".")
    if (kind === "run") this.#mergeRun(what, event)
    else this.#mergeStep(what, event)
  }

  #mergeRun(what, event) {
    if (ENDED.has(this.view.status)) return
    this.view.status = ENDED.has(what) ? what : "running"
    if (ENDED.has(what)) this.view.ended = event.at
  }

  #mergeStep(status, event) {
    let step = this.step(event.path)
    if (!step) this.#add((step = { path: event.path, node: event.node, status, attempt: 1 }))
    const attempt = event.data?.attempt ?? step.attempt
    if (isOlder(status, attempt, step)) return
    Object.assign(step, { status, attempt })
    if (status === "running") Object.assign(step, { started: step.started ?? event.at, ended: null })
    if (ENDED.has(status)) Object.assign(step, { ended: event.at, seconds: step.started ? (Date.parse(event.at) - Date.parse(step.started)) / 1000 : null })
    if (status === "skipped") step.error = event.data?.reason
    for (const name of ["tool", "effect", "error"]) step[name] = event.data?.[name] ?? step[name]
  }

  step(path) {
    return this.#byPath.get(path)
  }

  /** What a node of the graph shows: {state, started, seconds, tool, inner, error}. */
  node(path) {
    const holds = this.#scopes.has(path)
    const steps = holds ? this.view.steps.filter((step) => step.node === path || step.node?.startsWith(`${path}/`)) : (this.#byNode.get(path) ?? [])
    const own = steps.filter((step) => plain(step.path) === path).at(-1)
    const inner = steps.filter((step) => plain(step.path) !== path)
    const state = own?.status ?? ofMany(inner.map((step) => step.status))
    return { state, started: own?.started, seconds: own?.seconds, step: own, inner }
  }

  /** The steps inside a step or node, in the order in which they began. */
  inside(path) {
    return this.view.steps.filter((step) => step.path.startsWith(`${path}/`) || (step.node === path && plain(step.path) !== path))
  }

  #told = false
  #tell() {
    if (this.#told) return
    this.#told = true
    setTimeout(() => {
      this.#told = false
      this.dispatchEvent(new Event("change"))
    }, 40)
  }
}

const ORDER = ["queued", "running", "waiting", "done", "skipped", "failed", "cancelled"]

function isOlder(status, attempt, step) {
  return attempt < step.attempt || (attempt === step.attempt && ORDER.indexOf(status) < ORDER.indexOf(step.status) && ENDED.has(step.status))
}

function ofMany(states) {
  for (const state of ["failed", "running", "waiting", "cancelled"]) if (states.includes(state)) return state
  if (!states.length) return "idle"
  if (states.includes("queued")) return states.includes("done") ? "running" : "queued"
  return states.every((state) => state === "skipped") ? "skipped" : "done"
}
