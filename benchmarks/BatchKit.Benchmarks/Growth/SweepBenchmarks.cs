using System.Globalization;
using System.Reflection;
using BatchKit.Benchmarks.Scopes;
using BatchKit.Transports;
using BenchmarkDotNet.Attributes;

namespace BatchKit.Benchmarks.Growth;

/// <summary>What does a message cost with each size and count of a buffer and of its frames at its least, and at 32 times its default? <c>OptionSweepTests</c> count what it allocates.</summary>
[MemoryDiagnoser]
public class SweepBenchmarks
{
    private const string Defaults = "defaults";
    private const int Factor = 32;
    private const int Handles = 50;
    private const int Messages = 1000;

    private static readonly OutputHandle[] AllHandles = [.. Enumerable.Range(1, Handles).Select(static number => number % 5 == 0 ? OutputHandle.Named($"group:{number}") : OutputHandle.Connection(node: 1, number))];

    private byte[] _payload = [];
    private FrameTransport _transport = null!;
    private OutputBuffer _output = null!;

    public static IEnumerable<string> Settings
    {
        get
        {
            yield return Defaults;
            foreach (var property in Properties)
            {
                var range = property.GetCustomAttribute<NumberRangeAttribute>()!;
                // A handle's share has room for a message.
                var least = property.Name == nameof(OutputBufferOptions.MaxBufferedBytesPerHandle) ? OutputBufferOptions.MessageOverheadBytes + 1 : range.Minimum;
                yield return string.Create(CultureInfo.InvariantCulture, $"{property.Name}={least}");
                yield return string.Create(CultureInfo.InvariantCulture, $"{property.Name}={Math.Min(Factor * DefaultOf(property), range.Maximum)}");
            }
        }
    }

    [ParamsSource(nameof(Settings))]
    public string Setting { get; set; } = Defaults;

    private static IEnumerable<PropertyInfo> Properties =>
        from type in (Type[])[typeof(OutputBufferOptions), typeof(FrameTransportOptions)]
        from property in type.GetProperties()
        where property.GetCustomAttribute<NumberRangeAttribute>() is not null && property.Name is not (nameof(OutputBufferOptions.Node) or nameof(FrameTransportOptions.DestinationNode))
        select property;

    [GlobalSetup]
    public void Start()
    {
        var (options, frames) = (new OutputBufferOptions(), new FrameTransportOptions { DestinationNode = 1, PublishesWithoutBlocking = true });
        if (Setting.Split('=') is [var name, var value])
        {
            var property = Properties.Single(one => one.Name == name);
            object target = property.DeclaringType == typeof(OutputBufferOptions) ? options : frames;
            property.SetValue(target, Convert.ChangeType(value, Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType, CultureInfo.InvariantCulture));
        }

        // What must fit the setting gives way.
        if (!Setting.StartsWith(nameof(frames.MaxFrameBytes), StringComparison.Ordinal))
            frames.MaxFrameBytes = Math.Max(frames.MaxFrameBytes, options.MaxBatchBytes + FrameWriter.OverheadBytes);
        options.MaxBatchBytes = Math.Min(options.MaxBatchBytes, frames.MaxFrameBytes - FrameWriter.OverheadBytes);
        options.MaxMessageBytes = (int)Math.Min(options.MaxMessageBytes, Math.Min(options.MaxBufferedBytes, options.MaxBufferedBytesPerHandle ?? long.MaxValue) - OutputBufferOptions.MessageOverheadBytes);

        _payload = new byte[Math.Min(100, options.MaxMessageBytes)];
        var receiver = new BatchReceiver(new CompletedTransport());
        _transport = new FrameTransport((frame, cancellationToken) => receiver.ReceiveAsync(frame.Bytes, cancellationToken), frames);
        _output = new OutputBuffer(_transport, options);
    }

    [GlobalCleanup]
    public void Stop()
    {
        _output.DisposeAsync().AsTask().GetAwaiter().GetResult();
        _transport.Dispose();
    }

    /// <summary>Half of the messages in a scope of all handles, a quarter each in scopes of one handle and outside.</summary>
    [Benchmark(OperationsPerInvoke = Messages)]
    public async Task WriteRound()
    {
        await using (_output.BeginBufferingScope())
        {
            for (var message = 0; message < Messages / 2; message++)
                await _output.WriteAsync(AllHandles[message % Handles], _payload).ConfigureAwait(false);
        }

        foreach (var handle in AllHandles)
        {
            await using (_output.BeginBufferingScope(handle))
            {
                for (var message = 0; message < Messages / 4 / Handles; message++)
                    await _output.WriteAsync(handle, _payload).ConfigureAwait(false);
            }
        }

        for (var message = 0; message < Messages / 4; message++)
            await _output.WriteAsync(AllHandles[message % Handles], _payload).ConfigureAwait(false);
        await _output.FlushAsync().ConfigureAwait(false);
    }

    // By default a handle may use all that the buffer has.
    private static long DefaultOf(PropertyInfo property)
    {
        object defaults = property.DeclaringType == typeof(OutputBufferOptions) ? new OutputBufferOptions() : new FrameTransportOptions();
        return Convert.ToInt64(property.GetValue(defaults) ?? new OutputBufferOptions().MaxBufferedBytes, CultureInfo.InvariantCulture);
    }
}
