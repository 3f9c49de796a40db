/** How loud a node of Web Audio is now, from 0 to 1. */
export class Meter {
  constructor(context) {
    this.node = new AnalyserNode(context, { fftSize: 512 })
    this.wave = new Float32Array(this.node.fftSize)
  }

  get level() {
    this.node.getFloatTimeDomainData(this.wave)
    return this.wave.reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0)
  }
}
