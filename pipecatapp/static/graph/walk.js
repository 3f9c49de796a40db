// Which box lies next to another, for the arrow keys.

const DIRECTIONS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }

/** The path that `key` leads to from `path`: the nearest box that way, straight ahead before aslant; null when there is none. */
export function neighbour(boxes, path, key) {
  const paths = [...boxes.keys()]
  if (key === "Home") return paths[0]
  if (key === "End") return paths.at(-1)
  const way = DIRECTIONS[key]
  if (!way || !boxes.has(path)) return null
  const from = centre(boxes.get(path))
  let best = null
  for (const other of paths) {
    const cost = other === path ? Infinity : distance(from, centre(boxes.get(other)), way)
    if (cost < (best?.cost ?? Infinity)) best = { other, cost }
  }
  return best?.other ?? null
}

const centre = ({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 })

function distance(from, to, [dx, dy]) {
  const ahead = (to.x - from.x) * dx + (to.y - from.y) * dy
  const aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx)
  return ahead < 8 ? Infinity : ahead + 2.5 * aside
}
