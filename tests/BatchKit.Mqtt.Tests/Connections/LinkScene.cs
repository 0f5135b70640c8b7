using System.Threading.Channels;
using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>A link to a broker that a test plays, on a clock that a test moves.</summary>
internal sealed class LinkScene : IDisposable
{
    public const int Connected = 220;
    public const int ConnectFailed = 221;
    public const int ServingFailed = 2404;

    public static TimeSpan KeepAlive { get; } = TimeSpan.FromSeconds(60);

    public static TimeSpan LongestPause { get; } = TimeSpan.FromSeconds(5);

    public FakeBroker Broker { get; } = new();

    public ManualTimeProvider Time { get; } = new();

    public LogCollector Log { get; } = new();

    public RecordingUser User { get; } = new();

    public MqttLink Link(Action<MqttOptions>? configure = null, string purpose = MqttLink.Transport)
    {
        var options = ConnectionSome.Options(Broker);
        options.ConnectTimeout = TimeSpan.FromMinutes(2);
        options.KeepAlive = KeepAlive;
        options.MaxReconnectDelay = LongestPause;
        configure?.Invoke(options);
        return new MqttLink(options, purpose, "some-client", options.SessionExpiry, User, Time, new GuardedLogger(Log));
    }

    /// <summary>The pause that the link waits out now; moves the clock past it.</summary>
    public async Task<TimeSpan> NextPauseAsync()
    {
        await WaitForTimerAsync(TimeSpan.Zero, LongestPause);
        return Time.AdvanceToNextTimer() ?? throw new InvalidOperationException("The link does not pause.");
    }

    /// <summary>Waits for the only timer to be one of these: those of connecting and of the keep-alive are longer than any pause, which tells them apart.</summary>
    public Task WaitForTimerAsync(TimeSpan least, TimeSpan most) => Until.TrueAsync(() => Time.OnlyDue is { } due && due >= least && due <= most);

    public void Dispose()
    {
        Broker.Dispose();
        Log.Dispose();
    }
}

/// <summary>Uses each connection until it ends, and keeps what failed.</summary>
internal sealed class RecordingUser : IConnectionUser
{
    private readonly Channel<MqttConnectException> _failures = Channel.CreateUnbounded<MqttConnectException>();
    private int _served;

    /// <summary>Thrown in place of serving.</summary>
    public Exception? Defect { get; set; }

    /// <summary>Thrown when a connection has ended.</summary>
    public Exception? DefectAtEnd { get; set; }

    public int Served => Volatile.Read(ref _served);

    public async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        Interlocked.Increment(ref _served);
        if (Defect is { } defect)
        {
            Defect = null;
            throw defect;
        }

        connection.Open(source: null);
        var reason = await connection.RunAsync(new RecordingHandler(), cancellationToken);
        return DefectAtEnd is null ? reason : throw DefectAtEnd;
    }

    public void ConnectFailed(MqttConnectException failure) => _failures.Writer.TryWrite(failure);

    public Task<MqttConnectException> NextFailureAsync() => _failures.Reader.ReadAsync().WithinDeadline();
}
