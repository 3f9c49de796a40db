// A run as it was after some of its events.
import { ENDED } from "./format.js"
import { RunState } from "./run-state.js"

/** The state of the run of `present` after the first `count` of its `events`; what a step gave is there once it has ended. */
export function asOf(present, events, count) {
  const { view } = present
  const past = new RunState(present.id)
  const happened = events.slice(0, count)
  const steps = new Map()
  const last = new Map(events.map((event) => [event.path, event]))
  for (const event of happened) if (event.type.startsWith("node.")) steps.set(event.path, stepAfter(event, present.step(event.path), last))
  const end = happened.find((event) => event.path === "" && ENDED.has(event.type.split(".")[1]))
  const status = end ? view.status : [...steps.values()].some((step) => step.status === "waiting") ? "waiting" : count ? "running" : "queued"
  const open = { ended: null, seconds: null, outputs: null, error: null, spoken: null, tokens: null }
  past.take({ ...view, ...(end ? {} : open), status, steps: [...steps.values()] })
  return past
}

/** A step after one of its events. What it gave is known after the last of them only; until then it has no times. */
function stepAfter(event, step, last) {
  if (step && last.get(event.path) === event) return step
  const status = event.type.split(".")[1]
  const known = step ?? { path: event.path, node: event.node }
  return { ...known, status, attempt: event.data?.attempt ?? known.attempt, error: event.data?.error ?? null, started: null, ended: null, seconds: null, output: null, prompt: null, model: null, tokens: null, facts: event.data?.question ? { question: event.data.question } : {} }
}

const WORDS = { started: "started", resumed: "goes on after a restart", note: "got a note", queued: "is queued", running: "starts", waiting: "waits for a person", done: "is done", skipped: "is skipped", failed: "failed", cancelled: "is cancelled" }

/** What an event says: "draft is done". */
export function eventWords(event) {
  return event ? `${event.path || "The run"} ${WORDS[event.type.split(".")[1]] ?? event.type}` : "Before the first event"
}
