using System.Globalization;
using System.Security.Cryptography.X509Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>A RabbitMQ broker for tests and benchmarks: one from the environment, or the installed one as a child process with a data folder of its own.</summary>
/// <remarks>Dispose it: that kills the process and deletes its data. It may be killed, frozen and started again on the same port and data.</remarks>
public sealed class RabbitMqServer : IAsyncDisposable
{
    /// <summary>The environment variable with the address of a running broker, as an AMQP URI.</summary>
    public const string AddressVariable = "BATCHKIT_TEST_RABBITMQ";

    // Continuous integration shares its cores.
    private static readonly TimeSpan StopLimit = TimeSpan.FromSeconds(90);

    private readonly RabbitMqFolder? _folder;
    private readonly bool _startsPortMapper;
    private ServerProcess? _portMapper;
    private ServerProcess? _process;

    private RabbitMqServer(Uri address, RabbitMqFolder? folder, bool startsPortMapper = true)
    {
        Address = address;
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

    /// <summary>The user to log in as.</summary>
    public string UserName => Uri.UnescapeDataString(Address.UserInfo.Split(':')[0]);

    /// <summary>The password of <see cref="UserName"/>.</summary>
    public string Password => Uri.UnescapeDataString(Address.UserInfo.Split(':')[1]);

    /// <summary>The virtual host to use.</summary>
    public string VirtualHost => Address.AbsolutePath.Length > 1 ? Uri.UnescapeDataString(Address.AbsolutePath[1..]) : "/";

    /// <summary>The port for MQTT over TCP, after <see cref="StartWithMqttAsync"/>.</summary>
    public int MqttPort => Owned().MqttPorts[0];

    /// <summary>The port for MQTT over WebSockets, after <see cref="StartWithMqttAsync"/>.</summary>
    public int WebMqttPort => Owned().MqttPorts[1];

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
    public static async Task<RabbitMqServer> ConnectOrStartAsync() =>
        Configured is { } address
            ? new RabbitMqServer(new Uri(address), folder: null)
            : await StartOwnAsync();

    /// <summary>Starts the installed broker as a child process, whatever the environment says.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<RabbitMqServer> StartOwnAsync() =>
        await ServerStart.OrDisposeAsync(Create(RabbitMqFolder.Create()), static server => server.StartAsync());

    /// <summary>The same, with its plugins for MQTT 3.1.1; they know the user guest with the password guest.</summary>
    /// <exception cref="ServerStartException">It is not installed, or did not start.</exception>
    public static async Task<RabbitMqServer> StartWithMqttAsync() =>
        await ServerStart.OrDisposeAsync(Create(RabbitMqFolder.Create(hasMqtt: true)), static server => server.StartAsync());

    /// <summary>A node of a cluster, which is not started yet. Its port mapper is the cluster's.</summary>
    internal static RabbitMqServer CreateNode(RabbitMqNodeNames names) => Create(RabbitMqFolder.Create(names), startsPortMapper: false);

    /// <summary>Starts the port mapper of its cluster.</summary>
    internal ServerProcess StartPortMapper() => Owned().StartPortMapper();

    /// <summary>Starts it again, on the same port and data, after <see cref="StopAsync"/> or <see cref="KillAsync"/>.</summary>
    public async Task StartAsync()
    {
        var folder = Owned();
        if (_startsPortMapper)
            _portMapper ??= folder.StartPortMapper();
        _process = folder.StartBroker();
        await _process.WaitUntilAsync(() => ListeningPorts.AllOpenAsync(Host, [Port, .. folder.MqttPorts]), "RabbitMQ");
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
    public Task<string> ControlAsync(params string[] arguments) => RunAsync(Owned().StartControl(arguments), $"rabbitmqctl {string.Join(' ', arguments)}");

    /// <summary>Has the broker evaluate Erlang expressions, without the full stop, and returns the last one's value. It takes a tenth of a second; <c>rabbitmqctl</c> takes more than a second.</summary>
    /// <exception cref="InvalidOperationException">One of them failed.</exception>
    public async Task<string> EvaluateAsync(string expressions)
    {
        var answer = await RunAsync(Owned().StartEvaluation(expressions), expressions);
        // erl_call writes {ok, value} or {error, text}, and exits with zero for both.
        return answer.StartsWith("{ok, ", StringComparison.Ordinal) ? answer[5..].TrimEnd()[..^1] : throw new InvalidOperationException($"{expressions}: {answer}");
    }

    /// <summary>Writes a certificate and its key where the broker can read them.</summary>
    internal (string Certificate, string Key) WriteCertificate(X509Certificate2 certificate) => Owned().WriteCertificate(certificate);

    /// <summary>Has the broker write to disk what was declared so far. It keeps its log of declarations in memory for a moment, so that a durable queue declared just
    /// before a kill -9 is gone afterwards, with its messages.</summary>
    public Task SyncDeclarationsAsync() => EvaluateAsync("mnesia:sync_log()");

    /// <summary>Has the broker forget a queue without a notice to its consumer, as a cluster may when a deletion ends late. For the installed RabbitMQ 3.</summary>
    public Task ForgetQueueAsync(string queue) =>
        EvaluateAsync($"rabbit_amqqueue:internal_delete(rabbit_misc:r(<<\"/\">>, queue, <<\"{queue}\">>), <<\"guest\">>)");

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

    private static RabbitMqServer Create(RabbitMqFolder folder, bool startsPortMapper = true) =>
        new(new Uri(string.Create(CultureInfo.InvariantCulture, $"amqp://guest:guest@127.0.0.1:{folder.Port}/")), folder, startsPortMapper);

    private static async Task<string> RunAsync(ServerProcess program, string what)
    {
        using (program)
            return await program.WaitForExitAsync(StopLimit) ? program.Output : throw new TimeoutException($"{what} did not end within {StopLimit}.");
    }

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
