// Runs beside the sound: takes the microphone at whatever rate it has, gives 16-bit samples at 16 kHz, 20 ms at a time.
const RATE = 16000
const FRAME = 320

class Microphone extends AudioWorkletProcessor {
  #frame = new Int16Array(FRAME)
  #filled = 0
  #sum = 0
  #count = 0
  #phase = 0

  process([[channel]]) {
    for (const sample of channel ?? []) this.#take(sample)
    return true
  }

  /** Each sample out is the mean of those in that fall into its time. */
  #take(sample) {
    this.#sum += sample
    this.#count += 1
    this.#phase += RATE / sampleRate
    if (this.#phase < 1) return
    this.#phase -= 1
    this.#frame[this.#filled++] = Math.max(-1, Math.min(1, this.#sum / this.#count)) * 32767
    this.#sum = this.#count = 0
    if (this.#filled < FRAME) return
    const samples = this.#frame.slice()
    this.port.postMessage(samples.buffer, [samples.buffer])
    this.#filled = 0
  }
}

registerProcessor("microphone", Microphone)
