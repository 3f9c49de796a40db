// One conversation by voice: the socket, the microphone, the loudspeaker.
import { Direct } from "./direct.js"
import { Meter } from "./meter.js"
import { Speaker } from "./speaker.js"

/** What to do when the browser gives no microphone, by the name of its error. */
export const REFUSED = {
  NotAllowedError: "The browser may not use the microphone. Allow it in the browser's settings for this page, then start again. You can type meanwhile.",
  NotFoundError: "No microphone was found. Plug one in, then start again. You can type meanwhile.",
  NotReadableError: "Another program holds the microphone. Close it, then start again. You can type meanwhile.",
}
const SILENT = { level: 0 }

/** Where this is kept, nobody waits a second time for a direct way that is not there. */
const NO_WAY = "hearth.talk.no-direct-way"

/** How often, and after how many milliseconds, a line that was given up for another is asked for again. */
const TRIES = 5
const AGAIN = 400

/** Whether browsers give a microphone to this page at all. */
export const mayListen = () => window.isSecureContext && Boolean(navigator.mediaDevices)

/**
 * Tells the page all that the server says, as "told" with the message as detail, and {type: "closed"} at its end.
 * Sound goes by WebRTC where that is possible, else by the socket that carries the words.
 */
export class Call extends EventTarget {
  hears = false
  #wanted = {}
  #socket = null
  #direct = null
  #speaker = null
  #stream = null
  #context = new AudioContext()
  #meter = SILENT
  #ready = false
  #waiting = []
  #over = false
  #tries = 0

  /** `wanted` is {conversation, model, voice}. Answers why there is no microphone though one was asked for, or null. */
  async open(wanted, { microphone, muted }) {
    this.#wanted = wanted
    const trouble = microphone ? await this.#listen() : null
    this.muted = muted
    await this.#connect(this.hears && "RTCPeerConnection" in window && !sessionStorage.getItem(NO_WAY))
    return trouble
  }

  /** How sound goes: "webrtc" or "websocket". */
  get way() {
    return this.#direct ? "webrtc" : "websocket"
  }

  get listening() {
    return this.#meter.level
  }

  get speaking() {
    return (this.#direct ?? this.#speaker)?.meter.level ?? 0
  }

  set muted(muted) {
    for (const track of this.#stream?.getAudioTracks() ?? []) track.enabled = !muted
  }

  /** {type: "text", text}, {type: "choose", …}, {type: "clear"} or {type: "quiet"}; it waits until somebody listens. */
  send(message) {
    this.#waiting.push(JSON.stringify(message))
    this.#flush()
  }

  close() {
    this.#over = true
    this.#hangUp()
    for (const track of this.#stream?.getTracks() ?? []) track.stop()
    if (this.#context.state !== "closed") this.#context.close()
    this.#meter = SILENT
  }

  async #listen() {
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true } })
    } catch (error) {
      return REFUSED[error.name] ?? `The microphone cannot be used: ${error.message}. You can type meanwhile.`
    }
    if (this.#over) return this.close()
    this.hears = true
    this.#meter = new Meter(this.#context)
    const source = this.#context.createMediaStreamSource(this.#stream)
    source.connect(this.#meter.node)
    await this.#context.audioWorklet.addModule("/static/talk/microphone.js")
    const frames = new AudioWorkletNode(this.#context, "microphone", { numberOfOutputs: 0 })
    frames.port.onmessage = ({ data }) => this.#ready && !this.#direct && this.#open && this.#socket.send(data)
    source.connect(frames)
    return null
  }

  async #connect(direct) {
    const offer = direct ? await this.#offer() : undefined
    if (this.#over) return this.#hangUp()
    const address = new URL("/api/voice", location.href)
    address.protocol = address.protocol.replace("http", "ws")
    const socket = (this.#socket = new WebSocket(address))
    socket.binaryType = "arraybuffer"
    socket.onopen = () => socket.send(JSON.stringify({ type: "hello", echo_cancelled: this.#cancels(), offer, ...this.#wanted }))
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#told(JSON.parse(data)) : this.#speaker?.play(data))
    socket.onclose = () => this.#tell({ type: "closed" })
    return undefined
  }

  /** Whether the microphone does not hear the loudspeaker; one that is not there never does. */
  #cancels() {
    return !this.hears || this.#stream.getAudioTracks()[0].getSettings().echoCancellation === true
  }

  #offer() {
    this.#direct = new Direct(this.#stream, this.#context, this.#fallBack)
    return this.#direct.offer()
  }

  /** There is no direct way: the same conversation once more, with its sound on the socket. */
  #fallBack = () => {
    sessionStorage.setItem(NO_WAY, "yes")
    this.#hangUp()
    this.#tries = TRIES
    this.#connect(false)
  }

  #hangUp() {
    this.#ready = false
    if (this.#socket) this.#socket.onclose = this.#socket.onmessage = this.#socket.onopen = null
    this.#socket?.close()
    this.#direct?.close()
    this.#speaker?.stop()
    this.#socket = this.#direct = this.#speaker = null
  }

  #told(message) {
    if (message.type === "busy" && this.#tries > 0) return this.#again()
    if (message.type === "unanswered") return this.#fallBack()
    if (message.type === "answer") return this.#direct?.accept(message.sdp)
    if (message.type === "waking" && !this.#direct) this.#speaker = new Speaker(this.#context, message.spoken_rate)
    if (message.type === "ready") this.#begin(message)
    if (message.type === "cleared") this.#wanted.conversation = message.conversation
    if (message.type === "interrupted") (this.#direct ?? this.#speaker)?.stop()
    if (message.type === "state" && message.state === "speaking") this.#direct?.resume()
    return this.#tell(message)
  }

  /** The line that was given up still counts for a moment. */
  #again() {
    this.#tries -= 1
    this.#hangUp()
    setTimeout(() => !this.#over && this.#connect(false), AGAIN)
  }

  #begin({ conversation }) {
    this.#ready = true
    this.#tries = 0
    this.#wanted.conversation = conversation
    this.#flush()
  }

  #flush() {
    while (this.#ready && this.#open && this.#waiting.length > 0) this.#socket.send(this.#waiting.shift())
  }

  /** A line that has just been closed, at the other end, takes nothing more. */
  get #open() {
    return this.#socket?.readyState === WebSocket.OPEN
  }

  #tell(detail) {
    if (!this.#over) this.dispatchEvent(new CustomEvent("told", { detail }))
  }
}
