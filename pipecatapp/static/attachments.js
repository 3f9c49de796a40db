// Files that go with a message: text files as they are, images made small enough for a model. The limits are the server's.

export const MOST = 8
const LONGEST_TEXT = 200_000 // characters
const LARGEST_FILE = 50_000_000 // bytes of an image before it is made smaller
const LONGEST_SIDE = 1536 // pixels: what models of a home look at
const SMALL = 300_000 // bytes: such an image is sent as it is
const IMAGES = ["image/png", "image/jpeg", "image/webp", "image/gif"]

/** A file as {name, text} or {name, image: a data URL}. Rejects with an Error that says why it cannot be attached. */
export async function attachment(file) {
  const name = file.name || "pasted image"
  if (file.type.startsWith("image/") && file.type !== "image/svg+xml") return { name, image: await image(file, name) }
  return { name, text: await text(file, name) }
}

async function text(file, name) {
  if (file.size > 4 * LONGEST_TEXT) throw tooLong(name)
  let words
  try {
    words = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer())
  } catch {
    throw new Error(`“${name}” is not a text file or an image, so no model here can read it.`)
  }
  if (words.includes("\0")) throw new Error(`“${name}” is not a text file or an image, so no model here can read it.`)
  if (words.length > LONGEST_TEXT) throw tooLong(name)
  return words.trim() ? words : Promise.reject(new Error(`“${name}” is empty.`))
}

const tooLong = (name) => new Error(`“${name}” is too long: a text file may have ${LONGEST_TEXT.toLocaleString("en")} characters.`)

async function image(file, name) {
  if (file.size > LARGEST_FILE) throw new Error(`“${name}” is too large: an image may have 50 MB.`)
  let bitmap
  try {
    bitmap = await createImageBitmap(file)
  } catch {
    throw new Error(`“${name}” cannot be shown as an image.`)
  }
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height))
  if (scale === 1 && file.size <= SMALL && IMAGES.includes(file.type)) return dataUrl(file)
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(bitmap.width * scale), height: Math.round(bitmap.height * scale) })
  const context = canvas.getContext("2d")
  context.fillStyle = "white" // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  return canvas.toDataURL("image/jpeg", 0.85)
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = Object.assign(new FileReader(), { onload: () => resolve(reader.result), onerror: () => reject(reader.error) })
    reader.readAsDataURL(file)
  })
}
