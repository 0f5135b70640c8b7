using System.Net;

namespace BatchKit.MQTTnet;

internal sealed partial class BatchedWriteChannel
{
    // A member of the interface since MQTTnet 5.1.
    public EndPoint LocalEndPoint => _inner.LocalEndPoint;
}
