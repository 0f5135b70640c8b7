using System.Net;

namespace BatchKit.MQTTnet.Writing;

internal sealed partial class BatchedWriteChannel
{
    // Asked for since MQTTnet 5.1.
    public EndPoint LocalEndPoint => _inner.LocalEndPoint;
}
