// What a reader would stumble over on this page: a list of complaints, empty where it reads well, and what is there.
(() => {
  const problems = [];
  const box = element => element.getBoundingClientRect();
  const shown = element => element.checkVisibility() && box(element).width > 0;
  const numbers = colour => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([red, green, blue]) => [red, green, blue]
    .map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  // As WCAG 2.1 reckons.
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  // The colour behind an element: of itself or the next one outwards that has any.
  const ground = element => {
    const svg = element.closest('figure svg[role=img]');
    const paper = svg && svg.querySelector('rect');
    if (paper) return numbers(getComputedStyle(paper).fill);
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };

  const page = document.documentElement;
  // Not innerWidth: a phone shows more of a page that is too wide, and smaller.
  const width = page.clientWidth;
  if (page.scrollWidth > width) {
    const wide = [...document.body.querySelectorAll('*')]
      .filter(element => shown(element) && box(element).right > width && !element.closest('.scroll'));
    problems.push(`wide: ${page.scrollWidth} pixels in ${width}: ${wide.slice(0, 3).map(element => element.outerHTML.slice(0, 80))}`);
  }

  const drawings = [...document.querySelectorAll('figure svg[role=img]')].filter(shown);
  for (const svg of drawings) {
    const frame = box(svg);
    const title = svg.querySelector('title')?.textContent;
    if (!title || !svg.querySelector('desc')?.textContent) problems.push('unnamed: a drawing has no title or description');
    const labels = [...svg.querySelectorAll('text')].map(text => ({ text, name: text.textContent.trim(), at: box(text) }));
    labels.forEach(({ text, name, at }, place) => {
      if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 1 || at.bottom > frame.bottom + 1) {
        problems.push(`cut: "${name}" in ${title}`);
      }
      const size = parseFloat(getComputedStyle(text).fontSize) * frame.width / svg.viewBox.baseVal.width;
      if (size < 10) problems.push(`small: "${name}" of ${size.toFixed(1)} pixels in ${title}`);
      for (const other of labels.slice(place + 1)) {
        const across = Math.min(at.right, other.at.right) - Math.max(at.left, other.at.left);
        const up = Math.min(at.bottom, other.at.bottom) - Math.max(at.top, other.at.top);
        if (across > 1 && up > 3) problems.push(`overlap: "${name}" and "${other.name}" in ${title}`);
      }
    });
    for (const mark of svg.querySelectorAll('polyline, circle, polygon')) {
      const style = getComputedStyle(mark);
      const colour = style.stroke === 'none' ? style.fill : style.stroke;
      if (contrast(numbers(colour), ground(mark)) < 3) problems.push(`faint: a mark of ${colour} in ${title}`);
    }
  }

  for (const link of document.querySelectorAll('a[href]')) {
    if (!link.textContent.trim()) problems.push(`unnamed: the link to ${link.getAttribute('href')} has no text`);
  }

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !shown(element) || element.closest('title, desc, script, style')) continue;
    const style = getComputedStyle(element);
    const colour = numbers(element.closest('svg') ? style.fill : style.color);
    const ratio = contrast(colour, ground(element));
    if (ratio < 4.5) problems.push(`faint: "${texts.currentNode.textContent.trim().slice(0, 40)}" ${ratio.toFixed(1)} to 1`);
    if (!element.closest('svg') && parseFloat(style.fontSize) < 12) problems.push(`small: "${texts.currentNode.textContent.trim().slice(0, 40)}"`);
  }

  return { problems: [...new Set(problems)], drawings: drawings.length, ground: luminance(ground(document.body)) };
})()
