// Runs that wait for a person to answer: for the badges of the navigation, of the conversations and of the title.
import { get } from "./api.js"
import { every } from "./events.js"

const LOOK_SECONDS = 4

/** `runs` of {id, conversation, …}; tells "change" when they are others. */
class WaitingRuns extends EventTarget {
  runs = []
  #stop = null

  /** Keeps `runs` current until `unwatch`, also while the page cannot be seen: the title of its tab can. */
  watch() {
    this.#stop ??= every(LOOK_SECONDS, () => this.look(), { hidden: true })
  }

  unwatch() {
    this.#stop?.()
    this.#stop = null
    this.#take([])
  }

  async look() {
    if (!this.#stop) return
    const { runs } = await get("/api/runs?status=waiting&limit=100").catch(() => ({ runs: this.runs })) // the pages say what is wrong
    if (this.#stop) this.#take(runs)
  }

  #take(runs) {
    const ids = (list) => list.map((run) => run.id).join()
    if (ids(runs) === ids(this.runs)) return
    this.runs = runs
    this.dispatchEvent(new Event("change"))
  }
}

export const waiting = new WaitingRuns()
