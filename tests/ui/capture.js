// Put into the page before its own code: `captured` keeps the sound that comes by WebRTC.
const QUIETEST = 1e-4
const PAUSE = 6
const pieces = []
let quiet = 0
const peers = []
const Peer = RTCPeerConnection

window.captured = {
  rate: 0,
  sound() {
    const bytes = new Uint8Array(Int16Array.from(pieces.flatMap((piece) => [...piece]), (sample) => Math.max(-1, Math.min(1, sample)) * 32767).buffer)
    let text = ""
    for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768))
    return btoa(text)
  },
  /** The addresses of both ends. */
  async peers() {
    const reports = [...(await peers.at(-1).getStats()).values()]
    return reports.filter(({ type, address }) => type.endsWith("-candidate") && address).map(({ address }) => address)
  },
}

window.RTCPeerConnection = class extends Peer {
  constructor(...how) {
    super(...how)
    peers.push(this)
    this.addEventListener("track", ({ track }) => keep(track))
  }
}

function keep(track) {
  const context = new AudioContext()
  const node = context.createScriptProcessor(4096, 1, 1)
  captured.rate = context.sampleRate
  node.onaudioprocess = ({ inputBuffer }) => {
    const piece = inputBuffer.getChannelData(0)
    quiet = piece.some((sample) => Math.abs(sample) > QUIETEST) ? 0 : quiet + 1
    if (quiet < PAUSE) pieces.push(piece.slice()) // of a long silence only its beginning
  }
  context.createMediaStreamSource(new MediaStream([track])).connect(node)
  node.connect(context.destination)
}
