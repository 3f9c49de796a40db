// An answer read aloud while its sound is made; one at a time.
import { postForStream } from "../api.js"
import { Speaker } from "./speaker.js"

let stopCurrent = () => {}

/** Reads Markdown aloud. Resolves at its end or when `stop()` of the returned object is called; rejects with ApiError. */
export function readAloud(text) {
  stopCurrent()
  const context = new AudioContext()
  const asking = new AbortController()
  let end = () => {}
  const stopped = new Promise((resolve) => (end = resolve))
  const stop = () => {
    asking.abort()
    if (context.state !== "closed") context.close()
    end()
  }
  stopCurrent = stop
  const done = Promise.race([stopped, play(text, context, asking.signal)]).finally(stop)
  return { done, stop }
}

async function play(text, context, signal) {
  const response = await postForStream("/api/voice/speech", { text }, { signal })
  const speaker = new Speaker(context, Number(response.headers.get("x-hearth-rate")))
  let odd = new Uint8Array()
  for await (const piece of pieces(response.body)) {
    const whole = new Uint8Array(odd.length + piece.length)
    whole.set(odd)
    whole.set(piece, odd.length)
    const even = whole.length - (whole.length % 2) // a piece may end inside a sample
    speaker.play(whole.slice(0, even).buffer)
    odd = whole.slice(even)
  }
  await new Promise((resolve) => setTimeout(resolve, 1000 * speaker.left))
}

async function* pieces(body) {
  const reader = body.getReader()
  for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) yield value
}
