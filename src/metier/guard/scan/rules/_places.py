"""Hosts by name: those that people know, and those where anybody can be in a minute."""

from __future__ import annotations

from metier.guard.scan.rules._words import word_set

PASTE = word_set(
    "glot.io pastebin.com rentry.co rentry.org hastebin.com paste.ee dpaste.com dpaste.org ghostbin.com controlc.com "
    "paste.rs ix.io sprunge.us termbin.com gist.githubusercontent.com privatebin.net justpaste.it telegra.ph "
    "pastes.dev bpa.st 0bin.net codeshare.io jsonkeeper.com npoint.io paste.debian.net paste.centos.org snippet.host "
    "pastebin.pl pastecode.io cl1p.net textbin.net write.as hackmd.io notes.io toptal.com paste.sh paste.gg "
    "paste.mozilla.org codepad.org ideone.com pastefs.com gist.github.com"
)
"""Where anybody leaves a text."""

SHORT = word_set(
    "bit.ly tinyurl.com t.ly is.gd cutt.ly rb.gy shorturl.at goo.gl ow.ly v.gd rebrand.ly s.id tiny.cc bl.ink "
    "shrtco.de surl.li tny.im clck.ru u.to qrco.de dub.sh short.io kutt.it da.gd git.io soo.gd 2cm.es urlz.fr t.co"
)
"""Where an address is hidden behind another."""

FREE = word_set(
    "vercel.app netlify.app pages.dev workers.dev herokuapp.com onrender.com railway.app fly.dev glitch.me replit.app "
    "repl.co replit.dev surge.sh web.app firebaseapp.com azurewebsites.net blogspot.com weebly.com wixsite.com "
    "000webhostapp.com infinityfreeapp.com r2.dev deno.dev lovable.app framer.app framer.website now.sh appspot.com "
    "run.app azurestaticapps.net cloudfunctions.net github.io gitlab.io neocities.org carrd.co webflow.io koyeb.app "
    "cyclic.app edgeone.app zeabur.app bolt.host stormkit.dev kesug.com rf.gd epizy.com wuaze.com gitbook.io "
    "notion.site hf.space codesandbox.io csb.app stackblitz.io webcontainer.io tiiny.site gt.tc on-forge.com on.aws "
    "amplifyapp.com b-cdn.net cloudfront.net vultrobjects.com supabase.co sites.google.com storage.googleapis.com "
    "firebasestorage.googleapis.com core.windows.net cloudapp.azure.com azurecontainerapps.io azureedge.net "
    "elasticbeanstalk.com wordpress.com squarespace.com myshopify.com modal.run streamlit.app gradio.live "
    "up.railway.app cachix.org"
)
"""Where anybody has a site at once."""

TUNNEL = word_set(
    "ngrok.io ngrok-free.app ngrok-free.dev ngrok.app ngrok.dev trycloudflare.com loca.lt localtunnel.me serveo.net "
    "localhost.run lhr.life bore.pub pinggy.link pinggy.io tunnelmole.net telebit.io duckdns.org ddns.net hopto.org "
    "zapto.org sytes.net no-ip.org no-ip.biz dynu.net freemyip.com devtunnels.ms playit.gg zrok.io mooo.com onion "
    "nip.io sslip.io myftp.org serveftp.com dyndns.org gotdns.ch redirectme.net onion.ly tor2web.org"
)
"""Where somebody's own machine answers, or changes daily."""

SINK = word_set(
    "webhook.site requestbin.com requestbin.net requestbin.io pipedream.net hookbin.com requestcatcher.com "
    "beeceptor.com mockbin.org postb.in interact.sh interactsh.com oast.fun oast.live oast.me oast.online oast.pro "
    "oast.site oastify.com burpcollaborator.net dnslog.cn ceye.io canarytokens.com canarytokens.org requestrepo.com "
    "hkdk.events typedwebhook.tools webhook.cool smee.io putsreq.com ptsv3.com ptsv2.com httpdump.app "
    "webhookinbox.com webhook-test.com pingb.in dnsbin.zhack.ca bxss.me xss.ht xss.report eo1.pipedream.net "
    "webhookcatcher.com hookb.in iplogger.org grabify.link formspree.io formsubmit.co webhook.win"
)
"""Where requests are caught and shown to whoever set it up."""

SHARE = word_set(
    "mega.nz mega.io mediafire.com gofile.io transfer.sh file.io anonfiles.com catbox.moe 0x0.st sendspace.com "
    "wetransfer.com we.tl cdn.discordapp.com media.discordapp.net pixeldrain.com uguu.se bashupload.com tmpfiles.org "
    "temp.sh oshi.at filebin.net krakenfiles.com 1fichier.com workupload.com ufile.io dropbox.com "
    "dl.dropboxusercontent.com drive.google.com docs.google.com drive.usercontent.google.com 1drv.ms send.vis.ee "
    "keep.sh fex.net bayfiles.com upload.ee put.re qiwi.gg disk.yandex.ru yadi.sk pan.baidu.com lanzoui.com "
    "lanzoux.com lanzou.com 123pan.com ipfs.io dweb.link x0.at arweave.net onedrive.live.com storage.cloud.google.com"
)
"""Where anybody leaves a file."""

KNOWN = word_set(
    "pump.fun jup.ag raydium.io dexscreener.com birdeye.so helius.dev quicknode.com aip.dev sourceforge.net "
    "github.com raw.githubusercontent.com api.github.com objects.githubusercontent.com ghcr.io gitlab.com "
    "bitbucket.org codeberg.org pypi.org files.pythonhosted.org npmjs.com npmjs.org unpkg.com jsdelivr.net "
    "cdnjs.cloudflare.com esm.sh crates.io rubygems.org packagist.org maven.org nuget.org golang.org go.dev "
    "pkg.go.dev python.org nodejs.org rust-lang.org astral.sh rustup.rs bun.sh bun.com deno.land deno.com docker.com "
    "ollama.com ollama.ai pnpm.io python-poetry.org sdkman.io fly.io brew.sh helm.sh inference.sh k3s.io k8s.io "
    "kubernetes.io tailscale.com starship.rs paradigm.xyz solana.com anza.xyz aka.ms amazonaws.com amazon.com aws "
    "google.com googleapis.com goo.gle withgoogle.com nodesource.com volta.sh claude.ai claude.com anthropic.com "
    "openai.com chatgpt.com cursor.com cursor.sh opencode.ai microsoft.com azure.com windows.net office.com live.com "
    "visualstudio.com vsassets.io apple.com mozilla.org debian.org ubuntu.com fedoraproject.org archlinux.org "
    "alpinelinux.org cloudflare.com vercel.com vercel.sh netlify.com heroku.com render.com railway.com supabase.com "
    "stripe.com huggingface.co hf.co replicate.com together.ai mistral.ai cohere.com groq.com x.ai perplexity.ai "
    "deepseek.com openrouter.ai fal.ai slack.com discord.com telegram.org notion.com notion.so linear.app "
    "atlassian.com atlassian.net figma.com zoom.us twilio.com sendgrid.com mailgun.net shopify.com paypal.com "
    "datadoghq.com sentry.io grafana.com elastic.co mongodb.com redis.io postgresql.org hashicorp.com terraform.io "
    "nvidia.com pytorch.org tensorflow.org conda.io anaconda.com conda.anaconda.org jetbrains.com oracle.com ibm.com "
    "salesforce.com sap.com digitalocean.com linode.com hetzner.com fastly.com akamai.com gnu.org kernel.org "
    "apache.org w3.org wikipedia.org arxiv.org stackoverflow.com youtube.com twitter.com x.com reddit.com "
    "linkedin.com facebook.com instagram.com medium.com dev.to openclaw.ai docs.openclaw.ai clawhub.ai clawhub.com "
    "clawdhub.com moltbook.com skills.sh agentskills.io modelcontextprotocol.io coingecko.com binance.com "
    "coinbase.com etherscan.io infura.io alchemy.com polymarket.com tavily.com exa.ai serper.dev brave.com "
    "firecrawl.dev elevenlabs.io deepgram.com assemblyai.com runwayml.com stability.ai open-meteo.com wttr.in "
    "weather.gov ipinfo.io httpbin.org shields.io badge.fury.io badgen.net jsonplaceholder.typicode.com dingtalk.com "
    "feishu.cn larksuite.com aliyun.com aliyuncs.com tencent.com qq.com baidu.com bilibili.com weixin.qq.com "
    "volces.com bytedance.com minimaxi.com minimax.io moonshot.cn bigmodel.cn siliconflow.cn gitee.com npmmirror.com "
    "tuna.tsinghua.edu.cn mirrors.ustc.edu.cn quay.io gcr.io pkg.dev mcr.microsoft.com getfoundry.sh nixos.org "
    "lix.systems determinate.systems get-ghcup.haskell.org haskell.org elixir-lang.org ruby-lang.org rvm.io php.net "
    "getcomposer.org gradle.org scala-lang.org julialang.org r-project.org mise.run mise.jdx.dev asdf-vm.com "
    "pyenv.run xmake.io just.systems taskfile.dev goreleaser.com lima-vm.io podman.io tigrisdata.com neon.tech "
    "neon.com planetscale.com turso.tech convex.dev clerk.com workos.com resend.com posthog.com expo.dev dagger.io "
    "pulumi.com sigstore.dev snyk.io semgrep.dev trivy.dev anchore.io trailofbits.com metamask.io 1password.com "
    "bitwarden.com lastpass.com gitlab-static.net virustotal.com zed.dev warp.dev replit.com glama.ai smithery.ai "
    "composio.dev browserbase.com apify.com zapier.com n8n.io make.com airtable.com hubspot.com intercom.com "
    "zendesk.com twitch.tv spotify.com dropboxapi.com box.com trello.com asana.com monday.com clickup.com "
    "calendly.com mapbox.com openstreetmap.org wolframalpha.com yahoo.com bing.com duckduckgo.com archive.org "
    "code-server.dev remix.run "
    "crossref.org ncbi.nlm.nih.gov nih.gov semanticscholar.org openalex.org mermaid.live mermaid.ink excalidraw.com "
    "json.org schema.org json-schema.org opentelemetry.io prometheus.io cncf.io ietf.org owasp.org mitre.org nist.gov "
    "creativecommons.org opensource.org phantom.app phantom.com ledger.com trezor.io uniswap.org digicert.com "
    "opensuse.org chocolatey.org fluxcd.io ntn.dev get.scoop.sh scoop.sh linuxserver.io railwayapp.com "
    "portswigger.net projectdiscovery.io kali.org metasploit.com clickhouse.com antigravity.google direnv.net pkgx.sh "
    "jetify.com doppler.com infisical.com atuin.sh ohmyposh.dev encore.dev temporal.download temporal.io wasmtime.dev "
    "wasmer.io tilt.dev depot.dev modal.com daytona.io e2b.dev aptos.dev sui.io starkup.dev noir-lang.org "
    "risczero.com dfinity.org istio.io linkerd.io cilium.io getdbt.com prefect.io dagster.io influxdata.com "
    "cockroachlabs.com questdb.io duckdb.org meilisearch.com qdrant.tech weaviate.io pinecone.io langchain.com "
    "llamaindex.ai crewai.com factory.ai ampcode.com augmentcode.com codeium.com windsurf.com kiro.dev qwen.ai "
    "sonarsource.com sonarcloud.io codecov.io circleci.com buildkite.com gitpod.io ona.com coder.com teleport.com "
    "goteleport.com netbird.io zerotier.com grafana.net newrelic.com dynatrace.com honeycomb.io axiom.co logz.io "
    "speakeasy.com buf.build bazel.build nx.dev turbo.build moonrepo.dev flox.dev devenv.sh chef.io puppet.com "
    "ansible.com saltproject.io vagrantup.com lmstudio.ai jan.ai ghcup.haskell.org opam.ocaml.org ocaml.org "
    "ziglang.org crystal-lang.org nim-lang.org dlang.org rubyonrails.org laravel.com php.new herd.laravel.com "
    "fishshell.com ffmpeg.org imagemagick.org pandoc.org graphviz.org git-scm.com sqlite.org libreoffice.org "
    "inkscape.org gimp.org blender.org godotengine.org unity.com cmake.org llvm.org jupyter.org obsidian.md neovim.io "
    "vim.org java.com adoptium.net dot.net videolan.org 7-zip.org wireshark.org nmap.org nextjs.org react.dev "
    "vuejs.org angular.dev angular.io svelte.dev astro.build vite.dev vitejs.dev tanstack.com tailwindcss.com "
    "typescriptlang.org djangoproject.com palletsprojects.com fastapi.tiangolo.com spring.io wordpress.org drupal.org "
    "flutter.dev dart.dev kotlinlang.org swift.org android.com electronjs.org tauri.app mysql.com mariadb.org "
    "numpy.org scipy.org pydata.org matplotlib.org scikit-learn.org keras.io wandb.ai mlflow.org openxmlformats.org "
    "purl.org xmlsoap.org"
)
"""Makers and services that people know, each at their own host."""

MAKERS = word_set(
    "homebrew nvm-sh ohmyzsh pyenv rbenv helm kubernetes kubernetes-sigs k3d-io k3s-io aquasecurity anchore babashka "
    "golangci terraform-linters jesseduffield junegunn cli docker oven-sh denoland astral-sh sdkman starship "
    "hashicorp microsoft azure google googlecloudplatform google-gemini aws awslabs anthropics openai vercel vercel- "
    "labs supabase cloudflare stripe github gitlab-org apache python rust-lang golang nodejs facebook meta-llama "
    "nvidia huggingface langchain-ai ollama ggml-org block charmbracelet sigstore goreleaser fluxcd argoproj grafana "
    "prometheus elastic mozilla cncf istio linkerd cilium asdf-vm jdx tj ajeetdsouza zsh-users romkatv drwetter "
    "projectdiscovery trufflesecurity gitleaks semgrep foundry-rs nomicfoundation solana-labs anza-xyz acmesh- "
    "official angristan wg-easy dokku coollabsio go-task casey extractions dagger datadog sst expo shopify openclaw "
    "modelcontextprotocol trailofbits pnpm yarnpkg npm composer getsentry snyk sass tailwindlabs bats-core"
)
"""Accounts at forges whose installers people run every day."""

ODD_ENDINGS = word_set(
    ".xyz .top .click .zip .mov .icu .cyou .buzz .tk .ml .ga .cf .gq .rest .quest .sbs .cfd .bond .lol .pw .su "
    ".monster .beauty .hair .fun .site .online .space .store .website .live .club .info .biz .cc .ws .win .download"
)
"""How names end that cost next to nothing."""
