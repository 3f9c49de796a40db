// Conversations live here and not in a page: an answer goes on while one looks at other pages.
import { ApiError, ask, get } from "./api.js"
import { every } from "./events.js"

/** One conversation: `turns` of {user, text, state, error, run, model, seconds}; tells every difference as a "change". */
class Conversation extends EventTarget {
  turns = []
  error = null
  #abort = null

  constructor(id) {
    super()
    this.id = id
  }

  get busy() {
    return this.#abort !== null
  }

  async load() {
    try {
      const { turns } = await get(`/api/conversations/${encodeURIComponent(this.id)}`)
      if (!this.turns.length) this.turns = turns.map((turn) => ({ user: turn.user, text: turn.assistant, state: "done", run: turn.run }))
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.status !== 404) this.error = error.message
    }
    this.#tell()
  }

  async send(text, model) {
    const turn = { user: text, text: "", state: "running", error: null, run: null, model, seconds: null }
    this.turns.push(turn)
    this.#abort = new AbortController()
    const started = performance.now()
    this.#tell()
    const stopLooking = every(0.4, () => this.#findRun(turn))
    try {
      await this.#stream(turn)
      turn.state = "done"
    } catch (error) {
      turn.state = error.name === "AbortError" ? "cancelled" : "failed"
      turn.run ??= error.run ?? null
      turn.error = error.name === "AbortError" ? null : error.message
    } finally {
      stopLooking()
      this.#abort = null
      turn.seconds = (performance.now() - started) / 1000
      this.#tell()
      all.dispatchEvent(new Event("change"))
    }
  }

  async #stream(turn) {
    const onRun = (run) => {
      if (turn.run === run) return
      turn.run = run
      this.#tell()
    }
    const messages = [{ role: "user", content: turn.user }]
    const request = { model: turn.model, messages, conversation: this.id, signal: this.#abort.signal, onRun }
    for await (const piece of ask(request)) {
      turn.text += piece
      this.#tell()
    }
  }

  /** The answer's headers, which name the run, come with its first word; its graph is to be seen before that. */
  async #findRun(turn) {
    if (turn.run) return
    const { runs } = await get("/api/runs?limit=10").catch(() => ({ runs: [] })) // the answer itself tells what is wrong
    const known = this.turns.map((each) => each.run)
    const found = runs.find((run) => run.conversation === this.id && !known.includes(run.id))
    if (!found || turn.run) return
    turn.run = found.id
    this.#tell()
  }

  /** Asks the last question again, in place of its failed or stopped answer. */
  retry() {
    const { user, model } = this.turns.pop()
    return this.send(user, model)
  }

  stop() {
    this.#abort?.abort()
  }

  #tell() {
    this.dispatchEvent(new Event("change"))
  }
}

const open = new Map()

/** Tells "change" when the list of conversations may read differently. */
export const all = new EventTarget()

/** The conversation of this id, loaded once. */
export function conversation(id) {
  if (!open.has(id)) {
    const fresh = new Conversation(id)
    open.set(id, fresh)
    fresh.load()
  }
  return open.get(id)
}

/** A conversation nobody has spoken in yet. */
export function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  const id = `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`
  const fresh = new Conversation(id)
  open.set(id, fresh)
  return fresh
}

export const listConversations = async () => (await get("/api/conversations")).conversations

export function forgetAll() {
  for (const each of open.values()) each.stop()
  open.clear()
}
