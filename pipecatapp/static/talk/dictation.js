// Speech into a text field: what the microphone takes until it is stopped is sent once, and its words come back.
import { postBytes } from "../api.js"
import { REFUSED } from "./call.js"

const LONGEST = 120 // seconds, the server's limit
const FRAMES = 50 // that the microphone gives a second

/** One recording. `start()` rejects with an Error that says why there is no microphone; `ended` is called when it is full. */
export class Dictation {
  #frames = []
  #context = null
  #stream = null

  async start(ended) {
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true } })
    } catch (error) {
      throw new Error(REFUSED[error.name] ?? `The microphone cannot be used: ${error.message}.`)
    }
    this.#context = new AudioContext()
    await this.#context.audioWorklet.addModule("/static/talk/microphone.js")
    const frames = new AudioWorkletNode(this.#context, "microphone", { numberOfOutputs: 0 })
    frames.port.onmessage = ({ data }) => {
      if (this.#frames.length < LONGEST * FRAMES) this.#frames.push(data)
      if (this.#frames.length === LONGEST * FRAMES) ended()
    }
    this.#context.createMediaStreamSource(this.#stream).connect(frames)
  }

  /** Ends the recording; its words. */
  async stop() {
    this.cancel()
    const { text } = await (await postBytes("/api/voice/transcription", new Blob(this.#frames))).json()
    return text
  }

  /** Ends the recording and forgets it. */
  cancel() {
    for (const track of this.#stream?.getTracks() ?? []) track.stop()
    if (this.#context && this.#context.state !== "closed") this.#context.close()
  }
}
