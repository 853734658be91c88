"""What dispatchers and workers share: waiting, stopping, registration, and the policies for a job."""
