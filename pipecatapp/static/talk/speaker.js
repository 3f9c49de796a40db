// The loudspeaker for sound that comes by the WebSocket.
import { Meter } from "./meter.js"

const AHEAD = 0.04

/** Plays piece after piece without a gap; `stop` makes it silent at once. */
export class Speaker {
  #ends = 0
  #playing = new Set()

  constructor(context, rate) {
    Object.assign(this, { context, rate })
    this.meter = new Meter(context)
    this.meter.node.connect(context.destination)
  }

  /** Takes signed 16-bit samples, little endian, as an ArrayBuffer. */
  play(data) {
    const samples = new Int16Array(data)
    if (!samples.length) return
    const buffer = this.context.createBuffer(1, samples.length, this.rate)
    buffer.copyToChannel(Float32Array.from(samples, (sample) => sample / 32768), 0)
    const source = new AudioBufferSourceNode(this.context, { buffer })
    source.connect(this.meter.node)
    source.onended = () => this.#playing.delete(source)
    this.#playing.add(source)
    this.#ends = Math.max(this.#ends, this.context.currentTime + AHEAD)
    source.start(this.#ends)
    this.#ends += buffer.duration
  }

  /** Seconds until all is played. */
  get left() {
    return Math.max(0, this.#ends - this.context.currentTime)
  }

  stop() {
    for (const source of this.#playing) source.stop()
    this.#playing.clear()
    this.#ends = 0
  }
}
