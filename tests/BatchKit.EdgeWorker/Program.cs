using System.Globalization;
using System.Net;
using BatchKit;
using BatchKit.Broadcast;
using BatchKit.EdgeWorker;

// The only argument is the limit of idle and of slow clients in milliseconds; the first line of output names the port.
var limit = TimeSpan.FromMilliseconds(int.Parse(args[0], CultureInfo.InvariantCulture));
await using var transport = new BroadcastTransport(new BroadcastOptions { IdleTimeout = limit, SlowConsumerTimeout = limit, MaxQueuedBytes = 16 * 1024 * 1024 });
await using var output = new OutputBuffer(transport);
var options = new BroadcastListenerOptions { Protocol = ClientProtocol.Telnet, EndPoint = new IPEndPoint(IPAddress.Loopback, 0) };
await using var listener = new BroadcastListener(transport, options, connection => new Answerer(connection, output), output);
await listener.StartAsync(CancellationToken.None);
await Console.Out.WriteLineAsync($"port {listener.EndPoint.Port}");
await Task.Delay(Timeout.Infinite);
