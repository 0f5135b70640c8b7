using System.Globalization;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>A RabbitMQ broker for tests and benchmarks: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. It may be killed, frozen and started again on the same port and data.</remarks>
public sealed class RabbitMqServer : IAsyncDisposable
{
    /// <summary>The environment variable with the address of a running broker, as an AMQP URI.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_RABBITMQ";

    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(90);

    private readonly RabbitMqServerOptions _options;
    private readonly RabbitMqFolder? _folder;
    private readonly bool _startsPortMapper;
    private ServerProcess? _portMapper;
    private ServerProcess? _process;

    private RabbitMqServer(Uri address, RabbitMqServerOptions options, RabbitMqFolder? folder, bool startsPortMapper = true)
    {
        Address = address;
        _options = options;
        _folder = folder;
        _startsPortMapper = startsPortMapper;
    }

    /// <summary>True when it was started and not stopped since, frozen or not.</summary>
    public bool IsRunning => _process is not null;

    /// <summary>Its Erlang name; null for one from the environment.</summary>
    public string? NodeName => _folder?.NodeName;

    /// <summary>Where it listens, with user name, password and virtual host.</summary>
    public Uri Address { get; }

    /// <summary>The host to connect to.</summary>
    public string Host => Address.Host;

    /// <summary>The AMQP port.</summary>
    public int Port => Address.Port;

    /// <summary>The port for TLS; zero without a certificate.</summary>
    public int TlsPort => _folder?.TlsPort ?? 0;

    /// <summary>True when it is a child process, which may be killed and frozen; false for one from the environment.</summary>
    public bool IsOwned => _folder is not null;

    /// <summary>Why no broker can be had here, or null when one can.</summary>
    public static string? WhyMissing => Configured is not null || WhyNotInstalled is not { } reason
        ? null
        : $"{reason} {AddressVariable} names no broker either.";

    /// <summary>Why none can be started here, to be killed and frozen; null when one can.</summary>
    public static string? WhyNotInstalled => RabbitMqFolder.FindScripts() is not null ? null : "RabbitMQ is not installed (apt-get install rabbitmq-server).";

    private static string? Configured => Environment.GetEnvironmentVariable(AddressVariable) is { Length: > 0 } address ? address : null;

    /// <summary>Takes the broker that the environment names, or starts the installed one.</summary>
    /// <exception cref="ServerStartException">There is none, or it did not start.</exception>
    public static async Task<RabbitMqServer> ConnectOrStartAsync(RabbitMqServerOptions? options = null) =>
        Configured is { } address
            ? new RabbitMqServer(new Uri(address), options ?? new RabbitMqServerOptions(), folder: null)
            : await StartOwnAsync(options);

    /// <summary>Starts the installed broker as a child process, whatever the environment says.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<RabbitMqServer> StartOwnAsync(RabbitMqServerOptions? options = null)
    {
        options ??= new RabbitMqServerOptions();
        return await ServerStart.OrDisposeAsync(Create(options, RabbitMqFolder.Create(options)), static server => server.StartAsync());
    }

    /// <summary>A node of a cluster, which is not started yet. Its port mapper is the cluster's.</summary>
    internal static RabbitMqServer CreateNode(RabbitMqServerOptions options, RabbitMqNodeNames names) => Create(options, RabbitMqFolder.Create(options, names), startsPortMapper: false);

    /// <summary>Starts the port mapper of its cluster.</summary>
    internal ServerProcess StartPortMapper() => Owned().StartPortMapper();

    /// <summary>Starts it again, on the same port and data, after <see cref="StopAsync"/> or <see cref="KillAsync"/>.</summary>
    public async Task StartAsync()
    {
        var folder = Owned();
        if (_startsPortMapper)
            _portMapper ??= folder.StartPortMapper();
        _process = folder.StartBroker();
        await _process.WaitUntilAsync(() => ListeningPorts.AllOpenAsync(Host, Port, TlsPort), "RabbitMQ", _options.StartLimit);
    }

    /// <summary>Stops it in good order (SIGTERM), so that it saves what is durable.</summary>
    public Task StopAsync() => EndAsync(Signal.Terminate);

    /// <summary>Kills it at once (SIGKILL).</summary>
    public Task KillAsync() => EndAsync(Signal.Kill);

    /// <summary>Freezes it (SIGSTOP): connections stay open, nothing answers.</summary>
    public void Freeze() => FrozenProcess.Freeze(Owned().ReadProcessId());

    /// <summary>Lets it go on after <see cref="Freeze"/>.</summary>
    public void Thaw() => FrozenProcess.Thaw(Owned().ReadProcessId());

    /// <summary>Runs <c>rabbitmqctl</c> against it and returns what that wrote.</summary>
    public async Task<string> ControlAsync(params string[] arguments)
    {
        using var control = Owned().StartControl(arguments);
        if (!await control.WaitForExitAsync(StopLimit))
            throw new TimeoutException($"rabbitmqctl {string.Join(' ', arguments)} did not end within {StopLimit}.");
        return control.Output;
    }

    /// <summary>Has the broker write to disk what was declared so far. It keeps its log of declarations in memory for a moment, so that a durable queue declared just
    /// before a kill -9 is gone afterwards, with its messages.</summary>
    public Task SyncDeclarationsAsync() => ControlAsync("eval", "mnesia:sync_log().");

    /// <summary>Has the broker forget a queue without a notice to its consumer, as a cluster may when a deletion ends late. For the installed RabbitMQ 3.</summary>
    public Task ForgetQueueAsync(string queue) =>
        ControlAsync("eval", $"rabbit_amqqueue:internal_delete(rabbit_misc:r(<<\"/\">>, queue, <<\"{queue}\">>), <<\"guest\">>).");

    /// <inheritdoc/>
    public async ValueTask DisposeAsync()
    {
        if (_folder is null)
            return;
        if (_process is not null)
            await KillAsync();
        _portMapper?.Dispose();
        _portMapper = null;
        _folder.Delete();
    }

    private static RabbitMqServer Create(RabbitMqServerOptions options, RabbitMqFolder folder, bool startsPortMapper = true) =>
        new(new Uri(string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{folder.Port}/")), options, folder, startsPortMapper);

    private async Task EndAsync(int signal)
    {
        var folder = Owned();
        if (_process is not { } process)
            return;
        if (folder.TryReadProcessId() is { } broker)
            Signal.Send(broker, signal);

        if (!await process.WaitForExitAsync(StopLimit) && signal != Signal.Kill)
            throw new TimeoutException($"RabbitMQ did not stop within {StopLimit}.");
        process.Dispose();
        _process = null;
    }

    private RabbitMqFolder Owned() =>
        _folder ?? throw new InvalidOperationException($"The broker that {AddressVariable} names is not this process's to control.");
}
