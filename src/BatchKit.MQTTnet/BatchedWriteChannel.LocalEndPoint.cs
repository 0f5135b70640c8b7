using System.Net;

namespace BatchKit.MQTTnet;

internal sealed partial class BatchedWriteChannel
{
    // Asked for since MQTTnet 5.1.
    public EndPoint LocalEndPoint => _inner.LocalEndPoint;
}
