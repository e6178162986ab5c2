//! The head of the page: how it looks, by light and dark, on a desk, a phone and on paper.

use super::palette;

/// What knows no colours. On a narrow screen the drawings made for one are shown; wide tables move
/// sideways in boxes of their own.
const RULES: &str = "\
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:var(--text);background:var(--paper)}
main{max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:break-word}
h1,h2,h3,h4{line-height:1.25}h2{margin-top:3rem}h3{margin-top:2.2rem}h4{margin:1.2rem 0 .4rem}
h2 small,nav small{font-weight:normal;font-size:.85rem;overflow-wrap:anywhere}
small,.soft,figcaption,summary{color:var(--soft)}
a{color:var(--link)}
nav ul{padding-left:1.2rem}
figure{margin:0 0 1.5rem}figcaption{font-size:.9rem;margin:.4rem 0}
summary{cursor:pointer;font-size:.9rem}
svg{display:block;max-width:100%;height:auto}
.wide{width:100%}.narrow{display:none;width:100%}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.4rem;padding:0;margin:.4rem 0}
.legend li{display:flex;align-items:baseline;gap:.5rem;min-width:0}
.legend span{overflow-wrap:anywhere}
.key{flex:none}
.scroll{overflow-x:auto;margin:.5rem 0 1.5rem}
table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
.wordy td{overflow-wrap:anywhere;min-width:14rem}
td:first-child,.wordy td:first-child{overflow-wrap:normal;white-space:nowrap;min-width:0;padding-right:1.2rem}
th.number,td.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.differs td:first-child{font-weight:bold}
.warning{background:var(--warning);border-left:4px solid var(--edge);padding:.5rem 1rem}
@media(max-width:699px){.wordy td{min-width:7rem}.wide{display:none}.narrow{display:block}main{padding:.75rem 1rem}td:first-child,.wordy td:first-child{white-space:normal}h1{font-size:1.6rem}h2{font-size:1.3rem}}
@media print{details:not([open])>*{display:block}}
";

/// Up to the title; the page's own picture is an empty one, so that none is looked for.
pub(super) fn head() -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hythe: results</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{}{RULES}</style></head><body><main>\n<h1>Results</h1>\n",
        palette::style()
    )
}
