using System.Diagnostics;
using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.Mosquitto;

/// <summary>A Mosquitto broker for tests and benchmarks: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. It may be killed, frozen and started again on the same ports and data. The service that
/// Debian's package starts on port 1883 is never used.</remarks>
public sealed class MosquittoServer : IAsyncDisposable
{
    /// <summary>The environment variable with the address of a running broker, as <c>mqtt://host:port</c>.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_MQTT";

    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(30);

    // Mosquitto 2.0.11 was seen to go on after a SIGTERM just behind its start, so it gets another. One that saves its data needs less.
    private static readonly TimeSpan SignalLimit = TimeSpan.FromSeconds(5);

    private readonly MosquittoServerOptions _options;
    private readonly MosquittoFolder? _folder;
    private ServerProcess? _process;

    private MosquittoServer(Uri address, MosquittoServerOptions options, MosquittoFolder? folder)
    {
        Address = address;
        _options = options;
        _folder = folder;
    }

    /// <summary>Where it listens, as <c>mqtt://host:port</c>.</summary>
    public Uri Address { get; }

    /// <summary>The host to connect to.</summary>
    public string Host => Address.Host;

    /// <summary>The port for plain TCP.</summary>
    public int Port => Address.Port;

    /// <summary>The port for WebSockets; zero for one from the environment.</summary>
    public int WebSocketPort => _folder?.WebSocketPort ?? 0;

    /// <summary>The port for TLS; zero without a certificate.</summary>
    public int TlsPort => _options.Certificate is null ? 0 : _folder?.TlsPort ?? 0;

    /// <summary>The port for WebSockets over TLS, which asks for no client certificate; zero without a certificate.</summary>
    public int SecureWebSocketPort => _options.Certificate is null ? 0 : _folder?.SecureWebSocketPort ?? 0;

    /// <summary>True when it is a child process, which may be killed and frozen; false for one from the environment.</summary>
    public bool IsOwned => _folder is not null;

    /// <summary>Its log since it was started last; the last quarter of a megabyte of it.</summary>
    public string Output => _process?.Output ?? "";

    /// <summary>Its process, for who measures it.</summary>
    public int ProcessId => Running().Id;

    /// <summary>Why no broker can be had here, or null when one can.</summary>
    public static string? WhyMissing => Configured is not null || WhyNotInstalled is not { } reason
        ? null
        : $"{reason} {AddressVariable} names no broker either.";

    /// <summary>Why none can be started here, to be killed and frozen; null when one can.</summary>
    public static string? WhyNotInstalled => MosquittoFolder.FindProgram() is not null ? null : "Mosquitto is not installed (apt-get install mosquitto).";

    private static string? Configured => Environment.GetEnvironmentVariable(AddressVariable) is { Length: > 0 } address ? address : null;

    /// <summary>Takes the broker that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<MosquittoServer> ConnectOrStartAsync(MosquittoServerOptions? options = null) =>
        Configured is { } address
            ? new MosquittoServer(new Uri(address), new MosquittoServerOptions(), folder: null)
            : await StartOwnAsync(options);

    /// <summary>Starts the installed broker as a child process, whatever the environment says.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<MosquittoServer> StartOwnAsync(MosquittoServerOptions? options = null)
    {
        options ??= new MosquittoServerOptions();
        var folder = MosquittoFolder.Create(options);
        var address = new Uri(string.Create(CultureInfo.InvariantCulture, $"mqtt://127.0.0.1:{folder.Port}"));
        return await ServerStart.OrDisposeAsync(new MosquittoServer(address, options, folder), static server => server.StartAsync());
    }

    /// <summary>Starts it again, on the same ports and data, after <see cref="StopAsync"/> or <see cref="KillAsync"/>.</summary>
    public async Task StartAsync()
    {
        _process = Owned().Start();
        await _process.WaitUntilAsync(() => ListeningPorts.AllOpenAsync(Host, Port, WebSocketPort, TlsPort, SecureWebSocketPort), "Mosquitto");
    }

    /// <summary>Stops it in good order (SIGTERM), so that it saves what is to be kept.</summary>
    public Task StopAsync() => EndAsync(Signal.Terminate);

    /// <summary>Kills it at once (SIGKILL).</summary>
    public Task KillAsync() => EndAsync(Signal.Kill);

    /// <summary>Replaces the one user's password, and has it read its files again (SIGHUP), which ends connections that are no longer allowed.</summary>
    public void ChangePassword(string password)
    {
        Owned().WritePassword(_options.UserName ?? throw new InvalidOperationException("It has no user."), password);
        Signal.Send(Running().Id, Signal.HangUp);
    }

    /// <summary>Replaces the lines of its <c>acl_file</c>, and has it read its files again (SIGHUP).</summary>
    public void ChangeAccess(params string[] lines)
    {
        Owned().WriteAccess(lines);
        Signal.Send(Running().Id, Signal.HangUp);
    }

    /// <summary>Freezes it (SIGSTOP): connections stay open, nothing answers.</summary>
    public void Freeze() => FrozenProcess.Freeze(Running().Id);

    /// <summary>Lets it go on after <see cref="Freeze"/>.</summary>
    public void Thaw() => FrozenProcess.Thaw(Running().Id);

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_folder is null)
            return;
        await KillAsync();
        _folder.Delete();
    }

    private async Task EndAsync(int signal)
    {
        Owned();
        if (_process is not { } process)
            return;
        var began = Stopwatch.GetTimestamp();
        do
        {
            if (Stopwatch.GetElapsedTime(began) > StopLimit)
                throw new TimeoutException($"Mosquitto did not stop within {StopLimit}.{Environment.NewLine}{process.Output}");
            Signal.Send(process.Id, signal);
        }
        while (!await process.WaitForExitAsync(SignalLimit));

        process.Dispose();
        _process = null;
    }

    private ServerProcess Running() => Owned() is not null && _process is { } process ? process : throw new InvalidOperationException("Mosquitto is not running.");

    private MosquittoFolder Owned() =>
        _folder ?? throw new InvalidOperationException($"The broker that {AddressVariable} names is not this process's to control.");
}
