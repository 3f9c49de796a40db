// The one place that listens to the server (EventSource) and to the clock. Everybody else gets calls.
const TYPES = [
  ...["started", "resumed", "done", "failed", "cancelled"].map((what) => `run.${what}`),
  ...["queued", "running", "waiting", "done", "skipped", "failed", "cancelled"].map((what) => `node.${what}`),
]

/**
 * Follows a run from its first event. The browser reconnects by itself and sends Last-Event-ID, so nothing is lost
 * or told in the wrong order. `onEvent(event)`, `onWords({path, text, offset})` and `onEnd()`; returns the function that stops following.
 */
export function followRun(id, { onEvent, onWords, onEnd }) {
  const source = new EventSource(`/api/runs/${encodeURIComponent(id)}/events`)
  const stop = () => source.close()
  for (const type of TYPES) source.addEventListener(type, (message) => onEvent(JSON.parse(message.data)))
  source.addEventListener("delta", (message) => onWords(JSON.parse(message.data)))
  source.addEventListener("end", () => {
    stop()
    onEnd()
  })
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) onEnd() // refused for good: whoever asked looks again
  })
  return stop
}

/**
 * Calls `work` now, and `seconds` after each time it has ended, while the page can be seen; with `hidden`, always.
 * Returns the function that stops it.
 */
export function every(seconds, work, { hidden = false } = {}) {
  let timer = 0
  let stopped = false
  const turn = async () => {
    clearTimeout(timer)
    if (hidden || !document.hidden) await work()
    if (!stopped) timer = setTimeout(turn, seconds * 1000)
  }
  const seen = () => !document.hidden && turn()
  document.addEventListener("visibilitychange", seen)
  turn()
  return () => {
    stopped = true
    clearTimeout(timer)
    document.removeEventListener("visibilitychange", seen)
  }
}

const tickers = new Set()
let beat = 0

/** Calls `work` five times a second: for everything that shows passing time. Returns the function that stops it. */
export function ticking(work) {
  tickers.add(work)
  beat ||= setInterval(() => tickers.forEach((each) => each()), 200)
  return () => {
    tickers.delete(work)
    if (tickers.size) return
    clearInterval(beat)
    beat = 0
  }
}
