using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mqtt;

/// <summary>The MQTT broker aedes, which npm fetches into a temporary folder, as a child process.</summary>
public sealed class AedesServer : IAsyncDisposable
{
    private const string Npm = "npm";
    private const string Node = "node";
    private const string Script = """
        const aedes = require('aedes')();
        const { WebSocketServer, createWebSocketStream } = require('ws');
        const [port, webSocketPort] = process.argv.slice(2).map(Number);
        require('node:net').createServer(aedes.handle).listen(port, '127.0.0.1');
        new WebSocketServer({ port: webSocketPort, host: '127.0.0.1', handleProtocols: () => 'mqtt' })
            .on('connection', (socket, request) => aedes.handle(createWebSocketStream(socket), request));
        """;

    private static readonly string[] Packages = ["aedes@0.51.3", "ws@8.18.3"];
    private static readonly TimeSpan FetchLimit = TimeSpan.FromMinutes(2);

    private readonly DirectoryInfo _folder = Directory.CreateTempSubdirectory("batchkit-aedes-");
    private ServerProcess? _process;

    private AedesServer()
    {
        var ports = FreePort.Take(2);
        (Port, WebSocketPort) = (ports[0], ports[1]);
    }

    /// <summary>The port for plain TCP.</summary>
    public int Port { get; }

    /// <summary>The port for WebSockets.</summary>
    public int WebSocketPort { get; }

    /// <summary>Why it does not run; null when it does.</summary>
    public string? WhyMissing { get; private set; }

    /// <summary>Fetches and starts it. Where npm is missing or has no registry, <see cref="WhyMissing"/> says so.</summary>
    /// <exception cref="ServerStartException">It did not start.</exception>
    public static async Task<AedesServer> StartAsync() => await ServerStart.OrDisposeAsync(new AedesServer(), static server => server.FetchAndStartAsync());

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_process is { } process)
        {
            Signal.Send(process.Id, Signal.Kill);
            await process.WaitForExitAsync(FetchLimit);
            process.Dispose();
        }

        _folder.Delete(recursive: true);
    }

    private async Task FetchAndStartAsync()
    {
        if (InstalledProgram.Find(Npm) is not { } npm || InstalledProgram.Find(Node) is not { } node)
        {
            WhyMissing = $"The program {Npm} is not installed (apt-get install {Npm}).";
            return;
        }

        var environment = new Dictionary<string, string>(StringComparer.Ordinal);
        using (var fetching = ServerProcess.Start(npm, ["install", "--prefix", _folder.FullName, "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--silent", .. Packages], environment))
        {
            if (!await fetching.WaitForExitAsync(FetchLimit) || fetching.ExitCode != 0)
            {
                WhyMissing = $"npm could not fetch {string.Join(" and ", Packages)}: {fetching.Output.Trim()}";
                return;
            }
        }

        var script = Path.Combine(_folder.FullName, "broker.cjs");
        await File.WriteAllTextAsync(script, Script);
        _process = ServerProcess.Start(node, [script, Port.ToString(CultureInfo.InvariantCulture), WebSocketPort.ToString(CultureInfo.InvariantCulture)], environment);
        await _process.WaitUntilAsync(() => ListeningPorts.AllOpenAsync("127.0.0.1", Port, WebSocketPort), "aedes");
    }
}
