// Conversations as the page knows them. A turn is a run of the server: it continues without this page, which only follows it.
import { get, patch, post, removed } from "./api.js"
import { every } from "./events.js"
import { ENDED } from "./format.js"
import { openRun } from "./run-state.js"
import { waiting } from "./waiting.js"

const LOOK_SECONDS = 2

/** Where the settings of a conversation are kept that nobody has spoken in yet. */
const SETTINGS = "hearth.draft-settings"

/**
 * One conversation: `turns` of {run, user, text, state, error, questions, versions, attachments, seconds, speed}; `run` is null until the
 * server has accepted the turn, and `versions` are the runs of all versions of it. Tells every difference as a "change".
 * Current while it is followed (`follow`, `leave`).
 */
class Conversation extends EventTarget {
  turns = []
  /** How it is answered: {model, temperature, max_tokens, system}; what is null is the model's choice. */
  settings = {}
  /** What the latest answer took of its model's context: {model, used, size}; null while that is not known. */
  context = null
  /** What the model no longer sees: {before, partly}; null while it sees everything. */
  unseen = null
  error = null
  /** Whether somebody has deleted it while it was shown. */
  deleted = false
  #sending = 0
  #sent = 0 // turns that this page has asked for: what was read before the last of them is old
  #exists
  #unsaved = false
  #stopLooking = null
  #followed = new Map()

  constructor(id, { exists = true } = {}) {
    super()
    this.id = id
    this.#exists = exists
    if (!exists) this.settings = JSON.parse(sessionStorage.getItem(SETTINGS) ?? "{}")
  }

  get #address() {
    return conversationAddress(this.id)
  }

  get busy() {
    return this.turns.some((turn) => turn.state === "running")
  }

  /** The question that waits longest for a person: {run, path, question}; undefined without one. */
  get question() {
    for (const turn of this.turns) for (const each of turn.questions) if (each.open) return { run: turn.run, ...each }
  }

  /** Keeps the turns current, also with those of other tabs and devices, until `leave`. */
  follow() {
    this.#stopLooking ??= every(LOOK_SECONDS, () => this.look())
  }

  leave() {
    this.#stopLooking?.()
    this.#stopLooking = null
    for (const stop of this.#followed.values()) stop()
    this.#followed.clear()
  }

  /** Reads the turns that are new or had not ended. */
  async look() {
    if (this.#sending || !this.#exists) return
    const sent = this.#sent
    try {
      const { turns, unseen, settings, context } = await get(`${this.#address}?after=${encodeURIComponent(this.#known())}`)
      if (sent !== this.#sent) return
      this.error = null
      this.unseen = unseen
      this.context = context
      if (!this.#unsaved) this.settings = settings
      this.#place(turns)
    } catch (error) {
      if (sent !== this.#sent) return
      if (error.status === 404 && this.turns.length) return forget(this.id)
      this.#exists = error.status !== 404 // an old address: nobody has said anything in it
      this.error = this.#exists ? error.message : null
    }
    this.#tell()
  }

  /** The last run before the first turn that has not ended. */
  #known() {
    const open = this.turns.findIndex((turn) => !ENDED.has(turn.state))
    return (open < 0 ? this.turns.at(-1) : this.turns[open - 1])?.run ?? ""
  }

  /** Takes turns of the server: they follow those up to the one before the first of them, and nothing comes after them. */
  #place(turns) {
    const before = turns.length ? turns[0].previous : this.#known()
    const kept = this.turns.slice(0, this.turns.findIndex((each) => each.run === before) + 1)
    const known = new Map(this.turns.map((each) => [each.run, each]))
    this.turns = [...kept, ...turns.map(({ run, user, attachments }) => known.get(run) ?? { run, user, attachments, text: "", seconds: null })]
    for (const gone of this.#followed.keys()) if (!this.turns.includes(gone)) this.#unfollow(gone)
    for (const turn of turns) this.#take(turn)
  }

  #take({ run, assistant, status, error, questions, versions, attachments, speed, model }) {
    const turn = this.turns.find((each) => each.run === run)
    const state = status === "queued" ? "running" : status
    if (turn.state !== state && ENDED.has(state)) all.dispatchEvent(new Event("change"))
    if (turn.state !== state) waiting.look()
    Object.assign(turn, { state, error, questions, versions, attachments, speed, model })
    if (ENDED.has(state)) this.#unfollow(turn)
    if (ENDED.has(state) && (assistant || status === "done")) turn.text = assistant
    if (!ENDED.has(state)) this.#attach(turn)
  }

  /** Shows the text of a run while it comes. */
  #attach(turn) {
    if (this.#followed.has(turn) || !this.#stopLooking) return
    const run = openRun(turn.run)
    let status = null
    const show = () => {
      if (ENDED.has(turn.state)) return
      if (run.words) turn.text = run.words
      if (status !== run.view?.status) this.look()
      status = run.view?.status
      this.#tell()
    }
    run.addEventListener("change", show)
    this.#followed.set(turn, () => {
      run.removeEventListener("change", show)
      run.close()
      turn.seconds = run.view?.seconds ?? null
    })
  }

  #unfollow(turn) {
    this.#followed.get(turn)?.()
    this.#followed.delete(turn)
  }

  /** Asks a model. Rejects with ApiError, and without a turn, when the server does not take it. */
  async send(text, attachments = []) {
    const shown = attachments.map(({ name, image }) => ({ name, kind: image ? "image" : "text" }))
    const turn = { run: null, user: text || shown.map(({ name }) => name).join(", "), attachments: shown, text: "", state: "running", error: null, questions: [], versions: [], seconds: null }
    this.turns.push(turn)
    this.#exists = true
    this.#sending += 1
    this.#sent += 1
    this.#tell()
    try {
      const { run } = await this.#ask({ ...(text && { text }), ...(attachments.length && { attachments }) })
      turn.run = run
      if (turn.stopped) await this.#cancel(turn)
      this.#attach(turn)
      all.dispatchEvent(new Event("change"))
    } catch (error) {
      this.turns.splice(this.turns.indexOf(turn), 1)
      throw error
    } finally {
      this.#sending -= 1
      this.#tell()
    }
  }

  /**
   * Asks the question of a turn once more, or another one instead. The new version is shown in its place, and nothing of what
   * followed. Rejects with ApiError, and changes nothing, when the server does not take it.
   */
  async again(turn, text) {
    this.#sending += 1
    this.#sent += 1
    try {
      const said = text === turn.user ? {} : { text }
      const { run } = await this.#ask({ ...said, instead_of: turn.run })
      const version = { run, user: text, attachments: turn.attachments, text: "", state: "running", error: null, questions: [], versions: [...turn.versions, run], seconds: null }
      const at = this.turns.indexOf(turn)
      if (at < 0) return // shown no longer: the next look finds out what is
      this.turns = [...this.turns.slice(0, at), version]
      this.#attach(version)
      all.dispatchEvent(new Event("change"))
    } finally {
      this.#sending -= 1
      this.#tell()
    }
  }

  /** Starts a turn with the settings of this page. */
  async #ask(said) {
    const answer = await post(`${this.#address}/turns`, { ...said, settings: this.settings })
    this.#unsaved = false
    forgetSettings()
    return answer
  }

  /** Is answered so from now on, on every device; a conversation that nobody has spoken in is so with its first turn. */
  async set(settings) {
    this.settings = settings
    this.#unsaved = true
    if (!this.#exists) return sessionStorage.setItem(SETTINGS, JSON.stringify(settings))
    await patch(this.#address, { settings })
    this.#unsaved = false
  }

  /** Where an attachment of a turn lies, by its place among them; null for a turn the server does not have. */
  attachmentAddress(turn, number) {
    return turn.run && `${this.#address}/turns/${encodeURIComponent(turn.run)}/attachments/${number}`
  }

  /** Shows another version of a turn, by its run, and what followed that. */
  async show(run) {
    await patch(this.#address, { shown: run })
    await this.look()
  }

  /** Creates a conversation that begins with the turns up to a run; its id. */
  async branch(run) {
    const { id } = await post(`${this.#address}/branch`, { run })
    all.dispatchEvent(new Event("change"))
    return id
  }

  /** Ends the work behind the answers that have not ended. */
  async stop() {
    const open = this.turns.filter((turn) => !ENDED.has(turn.state))
    for (const turn of open) turn.stopped = true
    await Promise.all(open.filter((turn) => turn.run).map((turn) => this.#cancel(turn)))
    await this.look()
  }

  #cancel(turn) {
    return post(`/api/runs/${encodeURIComponent(turn.run)}/cancel`)
  }

  /** Shows that it was deleted. */
  end() {
    this.deleted = true
    this.leave()
    this.#tell()
  }

  #tell() {
    this.dispatchEvent(new Event("change"))
  }
}

export const forgetSettings = () => sessionStorage.removeItem(SETTINGS)

const open = new Map()

/** Tells "change" when the list of conversations may read differently. */
export const all = new EventTarget()

/** The conversation of this id. */
export function conversation(id) {
  if (!open.has(id)) open.set(id, new Conversation(id))
  return open.get(id)
}

/** A conversation nobody has spoken in yet. */
export function newConversation() {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  const id = `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`
  open.set(id, new Conversation(id, { exists: false }))
  return open.get(id)
}

const conversationAddress = (id) => `/api/conversations/${encodeURIComponent(id)}`

/** Pinned ones, then the newest; with `text`, those that have its words: {conversations, total}, where `total` is without the limit. */
export const listConversations = (text, limit) => get(`/api/conversations?${new URLSearchParams({ text, limit })}`)

export const exportAddress = (id, format) => `${conversationAddress(id)}/export?format=${format}`

export async function renameConversation(id, title) {
  await patch(conversationAddress(id), { title })
  all.dispatchEvent(new Event("change"))
}

/** Lists a conversation before the others, or no longer. */
export async function pinConversation(id, pinned) {
  await patch(conversationAddress(id), { pinned })
  all.dispatchEvent(new Event("change"))
}

/** Removes a conversation with its runs; {runs, notes}: how many are removed, and how many notes stay. */
export async function deleteConversation(id) {
  const answer = await removed(conversationAddress(id))
  forget(id)
  return answer
}

/** What is shown of a conversation that is no longer there ends. */
function forget(id) {
  const gone = open.get(id)
  open.delete(id)
  gone?.end()
  all.dispatchEvent(new Event("change"))
}

export function forgetAll() {
  for (const each of open.values()) each.leave()
  open.clear()
}
