using System.Globalization;
using BatchKit.IntegrationTests.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>An alarm of the broker that fills the buffers up to their caps.</summary>
[Trait("Lane", "faults: an alarm lasts for seconds, once for each policy")]
public sealed class RabbitMqAlarmTests(OwnRabbitMqFixture fixture, ITestOutputHelper log) : IClassFixture<OwnRabbitMqFixture>
{
    /// <summary>How many seconds the alarm lasts: 5 unless this environment variable says otherwise.</summary>
    private const string SecondsVariable = "BATCHKIT_TEST_ALARM_SECONDS";

    /// <summary>From this time on the test is one that runs alone, so that the memory of the process is its own.</summary>
    private static readonly TimeSpan Long = TimeSpan.FromMinutes(1);

    /// <summary>Six buffers and what their sends hold, encoded and in the client, for several times.</summary>
    private const long MaxMemoryGrowth = 128 * 1024 * 1024;

    private static TimeSpan Alarm =>
        TimeSpan.FromSeconds(int.TryParse(Environment.GetEnvironmentVariable(SecondsVariable), CultureInfo.InvariantCulture, out var given) ? given : 5);

    [Fact]
    public async Task Buffers_at_their_caps_outlast_an_alarm_as_their_settings_say()
    {
        var server = await fixture.GetAsync();
        // With an alarm of 5 minutes it is the default, 2 minutes.
        var shortTimeout = 0.4 * Alarm;
        var writers = new Dictionary<string, CappedWriter>(StringComparer.Ordinal)
        {
            ["wait"] = await StartAsync(server, OverflowPolicy.Wait),
            ["fail"] = await StartAsync(server, OverflowPolicy.Fail),
            ["drop newest"] = await StartAsync(server, OverflowPolicy.DropNewest),
            ["drop oldest"] = await StartAsync(server, OverflowPolicy.DropOldest),
            ["give up"] = await StartAsync(server, OverflowPolicy.Wait, shortTimeout),
            ["MassTransit"] = await StartMassTransitAsync(server),
        };

        var growth = await WriteThroughAlarmAsync(server, [.. writers.Values]);

        foreach (var (name, writer) in writers)
        {
            await writer.StopAsync();
            log.WriteLine($"{name}: {writer}");
        }

        log.WriteLine($"An alarm of {Alarm}: the process grew by {growth / 1024} KiB.");
        await writers["wait"].AssertNothingLostAsync(isRefused: false);
        await writers["fail"].AssertNothingLostAsync(isRefused: true);
        await writers["drop newest"].AssertNothingLostAsync(isRefused: true);
        await writers["MassTransit"].AssertNothingLostAsync(isRefused: false);
        await writers["drop oldest"].AssertLostAndCountedAsync(static statistics => statistics.OverflowDroppedMessages);
        await writers["give up"].AssertLostAndCountedAsync(static statistics => statistics.FailedMessages);
        if (Alarm >= Long)
            Assert.InRange(growth, long.MinValue, MaxMemoryGrowth);
        foreach (var writer in writers.Values)
            await writer.DisposeAsync();
    }

    /// <summary>Writes before, during and after an alarm; returns by how many bytes the memory in use grew during it.</summary>
    private static async Task<long> WriteThroughAlarmAsync(RabbitMqServer server, CappedWriter[] writers)
    {
        await server.SetDiskAlarmAsync(isOn: true);
        long growth;
        try
        {
            foreach (var writer in writers)
                writer.Start();
            await Until.TrueAsync(() => Array.TrueForAll(writers, static writer => writer.WasFull));
            var before = GC.GetTotalMemory(forceFullCollection: true);
            await Task.Delay(Alarm);
            growth = GC.GetTotalMemory(forceFullCollection: true) - before;
        }
        finally
        {
            await server.SetDiskAlarmAsync(isOn: false);
        }

        await Task.WhenAll(writers.Select(static writer => writer.WriteMoreAsync()));
        return growth;
    }

    private static async Task<CappedWriter> StartAsync(RabbitMqServer server, OverflowPolicy overflow, TimeSpan? deliveryTimeout = null)
    {
        var options = RabbitMqSome.Options(server, static options => options.PublishTimeout = TimeSpan.FromSeconds(2));
        var path = await RabbitMqPath.StartAsync(options, options, output => CappedWriter.Configure(output, overflow, deliveryTimeout));
        return new CappedWriter(path.Output, path.Arrived, overflow, path);
    }

    private static async Task<CappedWriter> StartMassTransitAsync(RabbitMqServer server)
    {
        var node = await MassTransitNode.StartReadyAsync(
            RabbitMqPath.Node, MassTransitSome.Settings(server, Some.Name("mt")), configureOutput: static output => CappedWriter.Configure(output, OverflowPolicy.Wait, deliveryTimeout: null));
        return new CappedWriter(node.Output, node.Received, OverflowPolicy.Wait, node);
    }
}

/// <summary>Writes numbered lines to a buffer with a small cap as fast as it takes them, and after a refusal the same line again.</summary>
internal sealed class CappedWriter(OutputBuffer output, CollectingTransport arrived, OverflowPolicy overflow, IAsyncDisposable path) : IAsyncDisposable
{
    private const int CapBytes = 1024 * 1024;
    private const int LineBytes = 1000;
    private const int More = 100;

    // A buffer is full when a chunk no longer fits, not only when each byte is taken.
    private const double FullShare = 0.8;

    private readonly OutputHandle _handle = Some.Connection(RabbitMqPath.Node);
    private readonly CancellationTokenSource _stop = new();
    private Task _writing = Task.CompletedTask;
    private long _mostBytes;
    private int _lines;
    private int _refused;

    /// <summary>Whether the buffer was full at some time.</summary>
    public bool WasFull => Volatile.Read(ref _mostBytes) > CapBytes * FullShare;

    public static void Configure(OutputBufferOptions options, OverflowPolicy overflow, TimeSpan? deliveryTimeout) =>
        (options.MaxBufferedBytes, options.MaxBufferedBytesPerHandle, options.MaxMessageBytes, options.Overflow, options.DeliveryTimeout) = (CapBytes, CapBytes, CapBytes / 4, overflow, deliveryTimeout ?? TimeSpan.FromHours(1));

    public void Start() => _writing = Task.Run(WriteAsync);

    /// <summary>Waits until the buffer has accepted more lines.</summary>
    public Task WriteMoreAsync()
    {
        var wanted = Volatile.Read(ref _lines) + More;
        return Until.TrueAsync(() => Volatile.Read(ref _lines) >= wanted);
    }

    public async Task StopAsync()
    {
        await _stop.CancelAsync();
        await _writing.WithinDeadline();
    }

    /// <summary>Checks that each line that was accepted arrived once and in order, and that the others were refused where the policy refuses.</summary>
    public async Task AssertNothingLostAsync(bool isRefused)
    {
        await output.FlushAsync().WithinDeadline();
        await arrived.WaitForMessagesAsync(_lines);
        AssertLaw();
        Assert.Equal(_lines, output.GetStatistics().AcknowledgedMessages);
        Assert.Equal(Enumerable.Range(0, _lines), Arrived());
        Assert.Equal(isRefused, _refused > 0);
    }

    /// <summary>Checks that what arrived came once and in order, and that what was acknowledged did; the rest was counted.</summary>
    public async Task AssertLostAndCountedAsync(Func<OutputStatistics, long> count)
    {
        // A flush throws what is lost while it waits.
        await Until.TrueAsync(() => output.GetStatistics().PendingMessages == 0);
        var statistics = output.GetStatistics();
        AssertLaw();
        Assert.True(count(statistics) > 0, $"{this}");
        Assert.Equal(_lines, statistics.AcknowledgedMessages + count(statistics));
        await Until.TrueAsync(() => arrived.MessageCount >= statistics.AcknowledgedMessages);
        var numbers = Arrived();
        Assert.Equal(numbers.Distinct().Order(), numbers);
        Assert.Contains(_lines - 1, numbers);
    }

    public override string ToString() => $"{_lines} lines accepted, {_refused} times refused, at most {_mostBytes} bytes buffered, {output.GetStatistics()}";

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        await path.DisposeAsync();
        _stop.Dispose();
    }

    private void AssertLaw()
    {
        RabbitMqPath.AssertLaw(output.GetStatistics());
        Assert.Equal(_lines, output.GetStatistics().AcceptedMessages);
        Assert.InRange(_mostBytes, CapBytes * FullShare, CapBytes);
    }

    private int[] Arrived() => [.. arrived.TextsFor(_handle).Select(static text => int.Parse(text, CultureInfo.InvariantCulture))];

    private async Task WriteAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            if (await TryWriteAsync(Some.Bytes($"{_lines}".PadRight(LineBytes))))
                Interlocked.Increment(ref _lines);
            else if (!_stop.IsCancellationRequested)
                _refused++;
            _mostBytes = Math.Max(_mostBytes, output.GetStatistics().BufferedBytes);
            if (_refused > 0 || overflow == OverflowPolicy.DropOldest)
                await Task.Delay(TimeSpan.FromMilliseconds(1));
        }
    }

    private async Task<bool> TryWriteAsync(byte[] line)
    {
        // With these policies only TryWrite says whether a line was dropped.
        if (overflow is OverflowPolicy.DropNewest or OverflowPolicy.DropOldest)
            return output.TryWrite(_handle, line);
        try
        {
            await output.WriteAsync(_handle, line, cancellationToken: _stop.Token);
            return true;
        }
        catch (OutputOverflowException) when (overflow == OverflowPolicy.Fail)
        {
            return false;
        }
        catch (OperationCanceledException) when (_stop.IsCancellationRequested)
        {
            return false;
        }
    }
}
