"use strict";
// Reads what packing.py writes: base64 of zlib-compressed numbers, seven bits at a time, or of JSON.

/** The bytes of one of the page's pieces of data. */
async function unpackBytes(name) {
  const element = document.getElementById("data-" + name);
  if (!element) return null;
  const text = atob(element.textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A piece of data that is JSON; null if the page has none of this name. */
async function unpackDocument(name) {
  const bytes = await unpackBytes(name);
  return bytes && JSON.parse(new TextDecoder().decode(bytes));
}

/** Numbers one column after the other; values up to 2^53 are exact. */
class ColumnReader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  /** The next `count` numbers. */
  numbers(count) {
    const bytes = this.bytes, values = new Float64Array(count);
    let at = this.at;
    for (let i = 0; i < count; i++) {
      let group = bytes[at++], value = group & 127, place = 128;
      while (group & 128) {
        group = bytes[at++];
        value += (group & 127) * place;
        place *= 128;
      }
      values[i] = value % 2 ? -(value + 1) / 2 : value / 2;
    }
    this.at = at;
    return values;
  }

  /** The next `count` numbers, each the one before it plus what is written. */
  sums(count) {
    const values = this.numbers(count);
    for (let i = 1; i < count; i++) values[i] += values[i - 1];
    return values;
  }
}

/** A track of blocks: starts, ends, kinds, contexts, in the order of time. */
function readTrack(reader, count) {
  const gaps = reader.numbers(count), lengths = reader.numbers(count);
  const kinds = Int32Array.from(reader.sums(count)), contexts = Int32Array.from(reader.sums(count));
  const starts = gaps, ends = lengths;
  let last = 0;
  for (let i = 0; i < count; i++) {
    starts[i] = last + gaps[i];
    last = ends[i] = starts[i] + lengths[i];
  }
  return { starts, ends, kinds, contexts };
}
