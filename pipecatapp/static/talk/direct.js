// Sound by WebRTC: straight to the machine that hears. No other server is asked how to get there.
import { Meter } from "./meter.js"

/** Milliseconds: a connection within a house is there in a twentieth of it, unless the machine is very busy. */
const PATIENCE = 8000
const GATHERING = 1000

/** `lost()` is called once, when there is no way or the way is gone. */
export class Direct {
  #peer = new RTCPeerConnection({ iceServers: [] })
  #player = new Audio()
  #timer = 0

  constructor(stream, context, lost) {
    Object.assign(this, { context, lost })
    this.meter = new Meter(context)
    for (const track of stream.getAudioTracks()) this.#peer.addTransceiver(track, { direction: "sendrecv", streams: [stream] })
    this.#peer.createDataChannel("hearth") // pipecat counts a connection without one as half a connection
    this.#peer.addEventListener("track", ({ track }) => this.#play(track))
    this.#peer.addEventListener("connectionstatechange", this.#changed)
  }

  /** What the other side needs to know of us, as SDP. */
  async offer() {
    await this.#peer.setLocalDescription()
    if (this.#peer.iceGatheringState !== "complete") await this.#gathered()
    return this.#peer.localDescription.sdp
  }

  async accept(sdp) {
    this.#timer = setTimeout(() => this.#give(), PATIENCE)
    await this.#peer.setRemoteDescription({ type: "answer", sdp })
  }

  close() {
    clearTimeout(this.#timer)
    this.#peer.removeEventListener("connectionstatechange", this.#changed)
    this.#player.pause()
    this.#player.srcObject = null
    this.#peer.close()
  }

  /** Mutes the call: the browser has received up to two seconds of the answer that it has not played yet. */
  stop() {
    this.#enable(false)
  }

  /** Ends the mute when the next answer begins. */
  resume() {
    this.#enable(true)
  }

  #enable(enabled) {
    for (const { receiver } of this.#peer.getTransceivers()) receiver.track.enabled = enabled
  }

  #gathered() {
    return new Promise((done) => {
      this.#peer.addEventListener("icegatheringstatechange", () => this.#peer.iceGatheringState === "complete" && done())
      setTimeout(done, GATHERING)
    })
  }

  #play(track) {
    const stream = new MediaStream([track])
    this.#player.srcObject = stream // Web Audio hears a remote track only while an element plays it, too
    this.#player.play().catch(() => this.#give())
    this.context.createMediaStreamSource(stream).connect(this.meter.node)
  }

  #changed = () => {
    const state = this.#peer.connectionState
    if (state === "connected") clearTimeout(this.#timer)
    if (state === "disconnected") this.#timer = setTimeout(() => this.#give(), PATIENCE)
    if (state === "failed") this.#give()
  }

  #give() {
    this.close()
    this.lost()
  }
}
