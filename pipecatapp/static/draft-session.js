// The draft of one workflow on the server: every change is sent with the ETag of the version it is meant for.
import { get, patch, post, put, remove } from "./api.js"
import { draftOf, keepDraft } from "./drafts.js"

const FOLLOW = 2500 // milliseconds between two looks for changes of others

/**
 * Tells "change" with each new version, and "conflict" with detail {operations, reason} for a change that was not made,
 * which `edit` can make later. What could not be sent is kept by the tab until it was.
 */
export class DraftSession extends EventTarget {
  draft = null
  #queue = Promise.resolve()
  #timer = null

  constructor(name) {
    super()
    this.name = name
    this.address = `/api/drafts/${encodeURIComponent(name)}`
  }

  async open() {
    this.#take(await get(this.address))
    const pending = draftOf(this.#kept)
    if (!pending) return
    const { etag, operations } = JSON.parse(pending)
    if (etag === this.draft.etag) await this.edit(operations)
    else this.#conflict(operations, "It was not sent before this page was closed, and the draft has changed since.")
  }

  get #kept() {
    return `operations-${this.name}`
  }

  /** Makes operations, after those that are on their way; resolves with whether they were made. */
  edit(operations) {
    return this.#next(() => this.#edit(operations))
  }

  async #edit(operations) {
    const before = this.draft
    keepDraft(this.#kept, JSON.stringify({ etag: before.etag, operations }))
    try {
      this.#take(await patch(this.address, { operations }, { seen: before.etag }))
    } catch (error) {
      if (error.status === 412) return this.#rebase(operations, before)
      if (error.status === 0 || error.status === 401) throw error
      keepDraft(this.#kept, "")
      throw error
    }
    keepDraft(this.#kept, "")
    return true
  }

  /** Another window was faster. Where it left the nodes alone that this change is about, the change is made all the same. */
  async #rebase(operations, before) {
    this.#take(await get(this.address))
    if (operations.some((each) => touched(each, before) !== touched(each, this.draft))) return this.#conflict(operations, "Another window changed the same part of this draft.")
    return this.#edit(operations)
  }

  #conflict(operations, reason) {
    keepDraft(this.#kept, "")
    this.dispatchEvent(new CustomEvent("conflict", { detail: { operations, reason } }))
    return false
  }

  undo = () => this.#next(() => this.#step("undo"))
  redo = () => this.#next(() => this.#step("redo"))

  async #step(way) {
    try {
      this.#take(await post(`${this.address}/${way}`, undefined, { seen: this.draft.etag }))
    } catch (error) {
      if (error.status === 412) this.#take(await get(this.address)) // nobody undoes what they have not seen
      throw error
    }
    return true
  }

  /** What saving would change: the server's answer with `diff` and `diagnostics`. */
  preview = () => this.#next(() => post(`${this.address}/save`, { look: true }, { seen: this.draft.etag }))

  save = ({ force = false } = {}) =>
    this.#next(async () => {
      const done = await post(`${this.address}/save`, { force }, { seen: this.draft.etag })
      this.#take(await get(this.address))
      return done
    })

  discard = () => this.#next(() => remove(this.address, { seen: this.draft.etag }))

  replaceText = (text) => this.#next(async () => this.#take(await put(this.address, { document: text }, { seen: this.draft.etag })))

  #next(act) {
    const done = this.#queue.then(act)
    this.#queue = done.catch(() => {})
    return done
  }

  #take(draft) {
    this.draft = draft
    this.dispatchEvent(new Event("change"))
  }

  /** Looks for changes of other windows until `unfollow`. */
  follow() {
    const look = async () => {
      const { etag } = await get(`${this.address}/etag`)
      if (etag !== this.draft.etag) await this.#next(async () => this.#take(await get(this.address)))
    }
    this.#timer = setInterval(() => document.hidden || look().catch(() => {}), FOLLOW) // the next look, or the next change, says what is wrong
  }

  unfollow() {
    clearInterval(this.#timer)
  }
}

/** What an operation is about, as text: equal in two versions where both have the same of it. */
function touched(operation, draft) {
  if (operation.op === "replace") return draft.etag
  const nodes = draft.graph?.nodes ?? []
  const made = operation.op === "add" ? [operation.in, operation.node.id].filter(Boolean).join("/") : null
  const paths = [operation.path?.split(".")[0], operation.from, operation.to, operation.in, made].filter((path) => path !== undefined && path !== null)
  return JSON.stringify(paths.map((path) => nodes.find((node) => node.path === path)?.value ?? null))
}
