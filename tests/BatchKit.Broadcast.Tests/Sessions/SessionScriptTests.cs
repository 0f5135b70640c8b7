using System.Diagnostics;
using BatchKit.Sessions;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Sessions;

/// <summary>The script that users copy into their pages, in Node.js against a real server.</summary>
public sealed class SessionScriptTests
{
    private const int Lines = 400;

    private const string Driver = """
        import { pathToFileURL } from 'node:url';
        const { openSession } = await import(pathToFileURL(process.argv[2]));
        const session = openSession(process.argv[3], {
            message: text => { console.log(text); if (text === 'last') session.close(); },
            gap: (from, to) => console.log(`gap ${from} ${to}`),
            state: name => { if (name === 'open') session.send('hello'); },
        });
        """;

    // Sockets and timers that a scenario moves by hand.
    private const string ByHand = """
        import { pathToFileURL } from 'node:url';
        const { openSession } = await import(pathToFileURL(process.argv[2]));
        let now = 0, id = 0;
        const timers = new Map(), sockets = [];
        const start = (run, ms, every) => (timers.set(++id, { run, at: now + ms, every }), id);
        globalThis.setTimeout = (run, ms) => start(run, ms);
        globalThis.setInterval = (run, ms) => start(run, ms, ms);
        globalThis.clearTimeout = globalThis.clearInterval = timer => timers.delete(timer);
        const pass = ms => {
            now += ms;
            for (const [timer, { run, at, every }] of timers) {
                if (at > now) continue;
                if (every) timers.get(timer).at += every; else timers.delete(timer);
                run();
            }
        };
        class Socket {
            constructor() { sockets.push(this); this.readyState = 1; console.log('connect'); }
            send(line) { console.log(`> ${line}`); }
            close() { if (this.readyState === 1) { this.readyState = 3; this.onclose(); } }
        }
        const session = openSession('x', {
            message: text => console.log(text),
            gap: (from, to) => console.log(`gap ${from} ${to}`),
            state: name => { console.log(name); if (name === process.argv[3]) session.close(); },
        }, Socket);
        const get = (...lines) => lines.forEach(data => sockets.at(-1).onmessage({ data }));
        const cut = () => { sockets.at(-1).readyState = 3; sockets.at(-1).onclose(); };
        sockets[0].onopen();
        get('session TOKEN', '1 one');
        for (const step of process.argv[4].split('; ')) step === 'cut' ? cut() : step === 'close' ? session.close() : step.startsWith('pass ') ? pass(Number(step.slice(5))) : get(step);
        """;

    [Theory]
    [Trait("Lane", "slow: a program is started")]
    [InlineData("asks again while no answer comes", "", "3 three; pass 30000; resumed 2; 2 two", "> session resume TOKEN 1; > session resume TOKEN 1; resumed; two")]
    [InlineData("shows nothing twice when it was answered twice", "", "3 three; resumed 2; 2 two; 4 four; resumed 2; 2 two; 3 three; 4 four", "> session resume TOKEN 1; resumed; two; > session resume TOKEN 2; resumed; three; four")]
    [InlineData("asks for what is missing before a gap", "", "gap 3 4; resumed 2; 2 two; gap 3 4", "> session resume TOKEN 1; resumed; two; gap 3 4")]
    [InlineData("asks for what is missing before what was superseded", "", "skip 3 4; resumed 2; 2 two; skip 3 4; 5 five", "> session resume TOKEN 1; resumed; two; five")]
    [InlineData("resumes when its connection has lost the session", "", "unknown; resumed 2; 2 two", "> session resume TOKEN 1; resumed; two")]
    [InlineData("asks when nothing arrives, and connects again when that is not answered", "", "pass 30000; pass 30000; pass 30000; pass 100", "> session ack 1; > session resume TOKEN 1; away; connect")]
    [InlineData("stays connected and says nothing while it is answered", "", "pass 30000; pass 30000; resumed 2; pass 30000; pass 30000; resumed 2; pass 30000; 2 two", "> session ack 1; > session resume TOKEN 1; > session ack 1; > session resume TOKEN 1; > session ack 1; two")]
    [InlineData("stays closed though its connection is away", "", "cut; close; close; pass 30000", "away; ended")]
    [InlineData("stays closed when it is closed because its connection is away", "away", "cut; pass 30000", "away; ended")]
    [InlineData("shows nothing once it is closed", "", "close; 2 two; cut; pass 30000", "ended")]
    public async Task A_page_misses_nothing_shows_nothing_twice_and_stays_closed(string what, string closesAt, string steps, string expected)
    {
        Assert.SkipWhen(NodeVersion() < 20, "Node.js 20 or newer is not installed.");

        using var node = Start(ByHand, closesAt, steps);
        var read = (await node.StandardOutput.ReadToEndAsync().WithinDeadline()).Split('\n', StringSplitOptions.RemoveEmptyEntries);

        Assert.True(read is ["connect", "> session open", "open", "one", ..], what);
        Assert.Equal(expected, string.Join("; ", read[4..]));
    }

    [Fact]
    public void It_has_at_most_60_lines() => Assert.InRange(File.ReadAllLines(ScriptPath).Length, 30, 60);

    [Fact]
    [Trait("Lane", "slow: a program is started")]
    public async Task It_gets_every_line_once_and_in_order_though_its_connection_is_cut()
    {
        Assert.SkipWhen(NodeVersion() < 20, "Node.js 20 or newer is not installed.");
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Services.AddBatchKit().UseBroadcast().UseSessions();
        builder.Services.AddSingleton<Arrivals>();
        await using var application = builder.Build();
        application.MapBatchKitWebSockets<Handler>("/ws");
        await application.StartAsync();
        var address = new Uri(application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses.First());
        var output = application.Services.GetRequiredService<IOutputBuffer>();
        using var node = Start(Driver, $"ws://{address.Authority}/ws");
        var session = await application.Services.GetRequiredService<Arrivals>().First.Task.WithinDeadline();

        for (var line = 1; line <= Lines; line++)
        {
            await output.WriteAsync(session.Handle, $"line {line}");
            if (line % 40 == 0)
                await CutAsync(application.Services, session);
        }

        await output.WriteAsync(session.Handle, "last");
        var read = (await node.StandardOutput.ReadToEndAsync().WithinDeadline()).Split('\n', StringSplitOptions.RemoveEmptyEntries);

        Assert.Equal([.. Enumerable.Range(1, Lines).Select(line => $"line {line}"), "last"], read);
        Assert.True(application.Services.GetRequiredService<SessionTransport>().GetStatistics().ResumedSessions >= Lines / 40);
    }

    private static string ScriptPath
    {
        get
        {
            var folder = new DirectoryInfo(AppContext.BaseDirectory);
            while (!File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
                folder = folder.Parent!;
            return Path.Combine(folder.FullName, "docs", "sessions", "session.mjs");
        }
    }

    private static async Task CutAsync(IServiceProvider services, Session session)
    {
        await Until.TrueAsync(() => session.Connection is var now && !now.IsNone && services.GetRequiredService<BroadcastTransport>().TryGetConnection(now, out _));
        if (services.GetRequiredService<BroadcastTransport>().TryGetConnection(session.Connection, out var connection))
            connection.Abort();
        await Until.TrueAsync(() => session.Connection != connection?.Handle);
    }

    private static Process Start(string script, params string[] arguments)
    {
        var driver = Path.Combine(Directory.CreateTempSubdirectory("batchkit-session-").FullName, "driver.mjs");
        File.WriteAllText(driver, script);
        // Newer ones have WebSockets without the switch, and know it still.
        return Process.Start(new ProcessStartInfo("node", ["--experimental-websocket", "--no-warnings", driver, ScriptPath, .. arguments]) { RedirectStandardOutput = true, UseShellExecute = false })!;
    }

    private static int NodeVersion()
    {
        try
        {
            using var node = Process.Start(new ProcessStartInfo("node", ["--version"]) { RedirectStandardOutput = true, UseShellExecute = false })!;
            return int.Parse(node.StandardOutput.ReadToEnd().TrimStart('v').Split('.')[0], System.Globalization.CultureInfo.InvariantCulture);
        }
        catch (System.ComponentModel.Win32Exception)
        {
            return 0;
        }
    }

    private sealed class Arrivals
    {
        public TaskCompletionSource<Session> First { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    private sealed class Handler(ClientConnection connection, SessionTransport sessions, Arrivals arrivals) : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            foreach (var record in records.Span)
            {
                if (sessions.Receive(connection.Handle, record.Payload.Span).Kind == SessionLineKind.None && sessions.TryGet(connection.Handle, out var session))
                    arrivals.First.TrySetResult(session);
            }

            return default;
        }

        public ValueTask EndAsync(DisconnectReason reason)
        {
            sessions.Suspend(connection.Handle);
            return default;
        }
    }
}
