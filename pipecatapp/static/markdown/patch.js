// Makes an element equal to another one and keeps every node that stays the same, so that a selection in it survives.

/** Changes `old` into `fresh`, which is used up; returns the element that is in the page afterwards. */
export function patch(old, fresh) {
  if (old.isEqualNode(fresh)) return old
  if (old.nodeType === Node.TEXT_NODE && fresh.nodeType === Node.TEXT_NODE) return grow(old, fresh.data)
  if (!alike(old, fresh)) {
    old.replaceWith(fresh)
    return fresh
  }
  const children = [...fresh.childNodes]
  while (old.childNodes.length > children.length) old.lastChild.remove()
  children.forEach((child, i) => (old.childNodes[i] ? patch(old.childNodes[i], child) : old.append(child)))
  return old
}

/** Replaces only the end that differs: a selection before it stays. */
function grow(text, data) {
  const longest = Math.min(text.length, data.length)
  let same = 0
  while (same < longest && text.data[same] === data[same]) same += 1
  text.replaceData(same, text.length - same, data.slice(same))
  return text
}

function alike(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE || old.localName !== fresh.localName || old.namespaceURI !== fresh.namespaceURI) return false
  return old.attributes.length === fresh.attributes.length && [...old.attributes].every(({ name, value }) => fresh.getAttribute(name) === value)
}
