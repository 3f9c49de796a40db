// Pan and zoom of one layer inside one frame, by mouse, wheel, touch and keys.

const LIMITS = [0.08, 2]

export class Viewport {
  scale = 1
  x = 0
  y = 0
  touched = false // once a person has moved it, it no longer fits itself
  #pointers = new Map()
  #moved = 0

  constructor(frame, layer) {
    this.frame = frame
    this.layer = layer
    this.size = { width: 0, height: 0 }
    frame.addEventListener("wheel", this.#wheel, { passive: false })
    frame.addEventListener("pointerdown", this.#down)
    frame.addEventListener("pointermove", this.#move)
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) frame.addEventListener(end, this.#up)
    frame.addEventListener("click", (event) => this.#moved > 4 && event.stopPropagation(), true)
  }

  /** Shows all of the layer, never larger than life; or, where that would be smaller than `least`, its beginning. */
  fit(least = LIMITS[0]) {
    const { width, height } = this.frame.getBoundingClientRect()
    if (!width || !this.size.width) return
    const margin = 16
    const scale = Math.min(1, (width - 2 * margin) / this.size.width, (height - 2 * margin) / this.size.height)
    this.scale = Math.max(least, scale)
    this.x = Math.max(margin, (width - this.size.width * this.scale) / 2)
    this.y = Math.max(margin, (height - this.size.height * this.scale) / 2)
    this.touched = false
    this.#apply()
  }

  zoom(factor, at = this.#middle()) {
    const scale = Math.min(LIMITS[1], Math.max(LIMITS[0], this.scale * factor))
    this.x = at.x - ((at.x - this.x) * scale) / this.scale
    this.y = at.y - ((at.y - this.y) * scale) / this.scale
    this.scale = scale
    this.touched = true
    this.#apply()
  }

  /** Moves just so far that the box is in sight. */
  reveal(box) {
    const { width, height } = this.frame.getBoundingClientRect()
    const inside = (start, size, room) => (start < 12 ? 12 - start : start + size > room - 12 ? room - 12 - start - size : 0)
    this.x += inside(this.x + box.x * this.scale, box.width * this.scale, width)
    this.y += inside(this.y + box.y * this.scale, box.height * this.scale, height)
    this.#apply()
  }

  #middle() {
    const { width, height } = this.frame.getBoundingClientRect()
    return { x: width / 2, y: height / 2 }
  }

  #apply() {
    this.layer.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`
    this.frame.dataset.overflows = this.#overflows() ? (this.#taller() ? "both" : "across") : "no"
    this.frame.dataset.small = this.scale < 0.45
  }

  #overflows() {
    return this.#taller() || this.size.width * this.scale > this.frame.clientWidth
  }

  #taller() {
    return this.size.height * this.scale > this.frame.clientHeight
  }

  #point(event) {
    const { left, top } = this.frame.getBoundingClientRect()
    return { x: event.clientX - left, y: event.clientY - top }
  }

  /** With Ctrl (or a pinch on a touchpad) it zooms; else it pans where there is something to pan, and lets the page scroll where not. */
  #wheel = (event) => {
    if (!event.ctrlKey && !event.metaKey && !this.#overflows()) return
    event.preventDefault()
    if (event.ctrlKey || event.metaKey) return this.zoom(Math.exp(-event.deltaY / 300), this.#point(event))
    this.#pan(-event.deltaX, -event.deltaY)
  }

  #pan(dx, dy) {
    this.x += dx
    this.y += dy
    this.touched = true
    this.#apply()
  }

  #down = (event) => {
    if (event.button !== 0 || event.target.closest("[data-graph-tool]")) return
    this.#moved = 0
    this.#pointers.set(event.pointerId, this.#point(event))
  }

  #move = (event) => {
    const before = this.#pointers.get(event.pointerId)
    if (!before) return
    const now = this.#point(event)
    const spread = this.#spread()
    this.#pointers.set(event.pointerId, now)
    this.#moved += Math.hypot(now.x - before.x, now.y - before.y)
    if (this.#moved > 4) this.frame.setPointerCapture(event.pointerId)
    if (this.#pointers.size > 1 && spread) this.zoom(this.#spread() / spread, now)
    else if (this.#moved > 4) this.#pan(now.x - before.x, now.y - before.y)
  }

  #up = (event) => this.#pointers.delete(event.pointerId)

  #spread() {
    const [a, b] = [...this.#pointers.values()]
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0
  }
}
